#!lua flags=no-writes
-- The entries that the id index names, of any producer.
--
-- KEYS[1]  the stream
-- ARGV     the fields that the event's id can have in the index
-- Reply    a list of entries
local ids = '{' .. KEYS[1] .. '}:ids'
local entries = {}
for start in string.gmatch(redis.call('GET', ids) or '', '%d+') do
  for at = 1, #ARGV do
    local value = redis.call('HGET', ids .. ':' .. start, ARGV[at])
    if value then
      local entry = entry_name(start, value)
      entries[#entries + 1] = redis.call('XRANGE', KEYS[1], entry, entry)[1]
    end
  end
end
return entries
