#!lua flags=no-writes
-- How far a consumer group is behind, seen in one moment.
--
-- KEYS[1]  the stream
-- ARGV     the group
-- Reply    the entries not acknowledged, and the age of the oldest of them in milliseconds (0 when there is none)
-- Fails with NOGROUP when the stream or the group is missing.
--
-- Redis cannot count the unread entries once some were deleted by hand ("lag" is nil); then the stream's length stands
-- in for it, which is never too few.
local stream, group = KEYS[1], ARGV[1]
local groups = redis.pcall('XINFO', 'GROUPS', stream)
if groups.err then return redis.error_reply('NOGROUP ' .. groups.err) end

local found
for _, fields in ipairs(groups) do
  local candidate = {}
  for at = 1, #fields, 2 do candidate[fields[at]] = fields[at + 1] end
  if candidate.name == group then found = candidate end
end
if not found then return redis.error_reply('NOGROUP the stream has no such group') end

local pending = redis.call('XPENDING', stream, group)
local unread = redis.call('XRANGE', stream, '(' .. found['last-delivered-id'], '+', 'COUNT', 1)[1]
local unread_count = 0
if unread then unread_count = tonumber(found.lag) or redis.call('XLEN', stream) end

-- Ids compare by their millisecond part here: only an age is asked for.
local oldest
if pending[1] > 0 then oldest = tonumber(string.match(pending[2], '^%d+')) end
if unread then
  local at = tonumber(string.match(unread[1], '^%d+'))
  if not oldest or at < oldest then oldest = at end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return { pending[1] + unread_count, oldest and math.max(0, now - oldest) or 0 }
