#!lua flags=allow-oom
-- Moves the consumer group back, so that it reads again what comes behind an entry. It is never moved forward: that
-- would pass over what has not been read.
--
-- KEYS[1]  the stream
-- ARGV     the group, the entry to begin behind, how many entries that the group has read are behind it
-- Reply    1 where the group was moved, else 0
local stream, group = KEYS[1], ARGV[1]
local ms, number = string.match(ARGV[2], '^(%d+)-(%d+)$')
local unread, _, _, _, place = group_place(stream, group, redis.call('XLEN', stream))
local placeMs, placeNumber = string.match(place, '^(%d+)-(%d+)$')
local is_back = tonumber(ms) < tonumber(placeMs) or ms == placeMs and tonumber(number) < tonumber(placeNumber)
if not is_back then return 0 end

-- Redis counts the unread entries by how many the group has read; without it the lag would be unknown.
local added = 0
local about = redis.call('XINFO', 'STREAM', stream)
for at = 1, #about, 2 do
  if about[at] == 'entries-added' then added = about[at + 1] end
end
redis.call('XGROUP', 'SETID', stream, group, ARGV[2], 'ENTRIESREAD', math.max(0, added - unread - ARGV[3]))
return 1
