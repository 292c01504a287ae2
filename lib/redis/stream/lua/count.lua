#!lua flags=no-writes
-- Counts one page of the entries that the consumer group has read.
--
-- KEYS[1]  the stream
-- ARGV     the group, the entry before the first one, and the maximum number of entries
-- Reply    the last entry (nothing on the last page), the number of entries, and the bytes of their values
local _, _, _, _, place = group_place(KEYS[1], ARGV[1], 0)
local page = redis.call('XRANGE', KEYS[1], '(' .. ARGV[2], place, 'COUNT', ARGV[3])
local bytes = 0
for _, entry in ipairs(page) do
  for at = 2, #entry[2], 2 do bytes = bytes + #entry[2][at] end
end
return { #page == tonumber(ARGV[3]) and page[#page][1] or false, #page, bytes }
