#!lua flags=no-writes
-- Returns the entries that the id index names for an id, for all producers.
--
-- KEYS[1]  the stream
-- ARGV     the id's field
local ids = '{' .. KEYS[1] .. '}:ids'
local entries = {}
for start in string.gmatch(redis.call('GET', ids) or '', '%d+') do
  local value = redis.call('HGET', ids .. ':' .. start, ARGV[1])
  if value then
    local entry = entry_name(start, value)
    entries[#entries + 1] = redis.call('XRANGE', KEYS[1], entry, entry)[1]
  end
end
return entries
