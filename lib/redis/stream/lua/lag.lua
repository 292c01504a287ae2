#!lua flags=no-writes
-- How far a consumer group is behind, seen in one moment. A group that does not exist has read nothing.
--
-- KEYS[1]  the stream
-- ARGV     the group
-- Reply    the entries that it has not read; those that it has read and not acknowledged; and the age of the oldest of
--          both in milliseconds (0 when there is none)
local unread, next, pending, held = group_place(KEYS[1], ARGV[1], redis.call('XLEN', KEYS[1]))

-- Names compare by their millisecond part here: only an age is asked for.
local oldest
for _, name in pairs({ next or '', held or '' }) do
  local at = tonumber(string.match(name, '^%d+'))
  if at and (not oldest or at < oldest) then oldest = at end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return { unread, pending, oldest and math.max(0, now - oldest) or 0 }
