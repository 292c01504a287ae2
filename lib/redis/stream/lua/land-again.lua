#!lua flags=allow-oom
-- Moves the consumer group back, so that it reads the entries after a given one again. It never moves the group
-- forward, which would skip unread entries.
--
-- KEYS[1]  the stream
-- ARGV     the group, the entry, and how many entries after it the group has read
-- Reply    1 if the group was moved, or 0
local stream, group = KEYS[1], ARGV[1]
local ms, number = string.match(ARGV[2], '^(%d+)-(%d+)$')
local unread, _, _, _, place = group_place(stream, group, redis.call('XLEN', stream))
local placeMs, placeNumber = string.match(place, '^(%d+)-(%d+)$')
local is_back = tonumber(ms) < tonumber(placeMs) or ms == placeMs and tonumber(number) < tonumber(placeNumber)
if not is_back then return 0 end

-- Redis computes the lag from the number of entries that the group has read, so this number is set too.
local added = 0
local about = redis.call('XINFO', 'STREAM', stream)
for at = 1, #about, 2 do
  if about[at] == 'entries-added' then added = about[at + 1] end
end
redis.call('XGROUP', 'SETID', stream, group, ARGV[2], 'ENTRIESREAD', math.max(0, added - unread - ARGV[3]))
return 1
