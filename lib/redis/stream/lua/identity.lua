#!lua flags=allow-oom
-- Gives a queue its identity at its first use, and reads it ever after. A few bytes, so it is written in a full server
-- too. The longest body that is accepted only grows.
--
-- KEYS[1]  the stream
-- ARGV     format version, number of partitions and queue id, which are stored where there is no identity yet; the
--          longest body in bytes that the caller accepts, 0 where it accepts none; and the secret of the id index,
--          which is stored as the first three are
-- Reply    format version, number of partitions, queue id, longest body and secret, as stored
local identity = '{' .. KEYS[1] .. '}:queue'
if redis.call('EXISTS', identity) == 0 then
  redis.call('HSET', identity, 'format', ARGV[1], 'partitions', ARGV[2], 'id', ARGV[3], 'secret', ARGV[5])
end
local stored = redis.call('HMGET', identity, 'format', 'partitions', 'id', 'bodyBytesMax', 'secret')
if tonumber(ARGV[4]) > tonumber(stored[4] or 0) then
  redis.call('HSET', identity, 'bodyBytesMax', ARGV[4])
  stored[4] = ARGV[4]
end
return stored
