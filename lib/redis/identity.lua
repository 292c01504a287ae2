#!lua flags=allow-oom
-- Gives a queue its identity at its first use, and reads it ever after. A few bytes, so it is written in a full server
-- too.
--
-- KEYS[1]  the stream
-- ARGV     format version, number of partitions and queue id, which are stored where there is no identity yet. An id
--          index that is there all the same is of format 1: identities are younger.
-- Reply    format version, number of partitions and queue id, as stored
local identity = '{' .. KEYS[1] .. '}:queue'
if redis.call('EXISTS', identity) == 0 then
  local format = redis.call('EXISTS', '{' .. KEYS[1] .. '}:ids') == 1 and 1 or ARGV[1]
  redis.call('HSET', identity, 'format', format, 'partitions', ARGV[2], 'id', ARGV[3])
end
return redis.call('HMGET', identity, 'format', 'partitions', 'id')
