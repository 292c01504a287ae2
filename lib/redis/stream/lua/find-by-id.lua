#!lua flags=no-writes
-- Returns the entries that the id index names for an id, of any producer, newest first. accept.lua describes the index.
--
-- KEYS[1]  the stream
-- ARGV     the id's field, and optionally retention in milliseconds, to leave out entries that accept.lua would ignore
local stream = KEYS[1]
local ids = '{' .. stream .. '}:ids'
local keeps = ARGV[2] and retained(stream, ARGV[2])
local entries = {}
for start in string.gmatch(redis.call('GET', ids) or '', '%d+') do
  local value = redis.call('HGET', ids .. ':' .. start, ARGV[1])
  local entry = value and entry_name(start, value)
  if entry and (not keeps or keeps(entry)) then
    entries[#entries + 1] = redis.call('XRANGE', stream, entry, entry)[1]
  end
end
return entries
