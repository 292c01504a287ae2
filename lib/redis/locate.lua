#!lua flags=no-writes
-- The entry that the id index names, of any producer.
--
-- KEYS[1]  the stream
-- ARGV     the event's field in the index
-- Reply    a list of one entry, or an empty one
local ids = '{' .. KEYS[1] .. '}:ids'
for start in string.gmatch(redis.call('GET', ids) or '', '%d+') do
  local value = redis.call('HGET', ids .. ':' .. start, ARGV[1])
  if value then
    local entry = entry_name(start, value)
    return redis.call('XRANGE', KEYS[1], entry, entry)
  end
end
return {}
