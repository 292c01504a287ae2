#!lua flags=allow-oom
-- Gives a queue its identity at its first use, and reads it ever after. A few bytes, so it is written in a full server
-- too. The longest body that is accepted only grows.
--
-- KEYS[1]  the stream
-- ARGV     format version, number of partitions and queue id, which are stored where there is no identity yet; and the
--          longest body in bytes that whoever asks accepts, 0 where it accepts none
-- Reply    format version, number of partitions, queue id and longest body, as stored
--
-- An id index that is there where there is no identity is of format 1: identities are younger.
local identity = '{' .. KEYS[1] .. '}:queue'
if redis.call('EXISTS', identity) == 0 then
  local format = redis.call('EXISTS', '{' .. KEYS[1] .. '}:ids') == 1 and 1 or ARGV[1]
  redis.call('HSET', identity, 'format', format, 'partitions', ARGV[2], 'id', ARGV[3])
end
local stored = redis.call('HMGET', identity, 'format', 'partitions', 'id', 'bodyBytesMax')
if tonumber(ARGV[4]) > tonumber(stored[4] or 0) then
  redis.call('HSET', identity, 'bodyBytesMax', ARGV[4])
  stored[4] = ARGV[4]
end
return stored
