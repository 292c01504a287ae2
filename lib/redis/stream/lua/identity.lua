#!lua flags=allow-oom
-- Creates a queue's identity on first use, and returns it. An identity is a few bytes, so a full server accepts it
-- too.
--
-- KEYS[1]  the stream
-- ARGV     format version, number of partitions and queue id for a new identity; the longest body in bytes that the
--          caller accepts, or 0; and the secret of the id index for a new identity
-- Reply    format version, number of partitions, queue id, longest body (which only grows) and secret, as stored
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
