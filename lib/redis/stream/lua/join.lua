#!lua flags=allow-oom
-- Makes the consumer group, from the beginning of the stream, if it is missing; also while the server is full. A stream
-- that has to be made was deleted by hand, if it ever was, and takes its id index with it.
--
-- KEYS[1]  the stream
-- ARGV     the group
-- Reply    1 if it was made, 0 if it was there
if redis.call('EXISTS', KEYS[1]) == 0 then
  local ids = '{' .. KEYS[1] .. '}:ids'
  for start in string.gmatch(redis.call('GET', ids) or '', '%d+') do redis.call('UNLINK', ids .. ':' .. start) end
  redis.call('UNLINK', ids)
end
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if not made.err then return 1 end
if string.match(made.err, '^BUSYGROUP') then return 0 end
return made
