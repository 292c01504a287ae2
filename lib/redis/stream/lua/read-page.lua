#!lua flags=no-writes
-- Reads the next entries of the stream. The reply exceeds the limit of bytes by at most one entry.
--
-- KEYS[1]  the stream
-- ARGV     the entry before the first one, the last entry, the maximum numbers of entries and of bytes, and the group
-- Reply    1 if a limit was reached, or 0; the entries; and the state of each: see entry-state.lua
local stream, page, states, from, bytes = KEYS[1], {}, {}, ARGV[1], 0
-- Redis refuses to read after the last possible name.
local LAST = '18446744073709551615-18446744073709551615'
while from ~= LAST and #page < tonumber(ARGV[3]) and bytes < tonumber(ARGV[4]) do
  local entry = redis.call('XRANGE', stream, '(' .. from, ARGV[2], 'COUNT', 1)[1]
  if not entry then return { 0, page, states } end
  page[#page + 1], from = entry, entry[1]
  states[#page] = entry_state(stream, ARGV[5], from, true)
  for at = 2, #entry[2], 2 do bytes = bytes + #entry[2][at] end
end
return { from == LAST and 0 or 1, page, states }
