#!lua flags=allow-oom
-- Creates the consumer group at the beginning of the stream if it is missing, even on a full server. If the stream is
-- missing, it was deleted by hand or never existed, so its id index is deleted.
--
-- KEYS[1]  the stream
-- ARGV     the group
-- Reply    1 if the group was created, or 0
if redis.call('EXISTS', KEYS[1]) == 0 then
  local ids = '{' .. KEYS[1] .. '}:ids'
  for start in string.gmatch(redis.call('GET', ids) or '', '%d+') do redis.call('UNLINK', ids .. ':' .. start) end
  redis.call('UNLINK', ids)
end
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if not made.err then return 1 end
if string.match(made.err, '^BUSYGROUP') then return 0 end
return made
