-- How far a consumer group is on a stream of this length. A group that does not exist has read nothing.
--
-- Returns the number of entries that it has not read and the name of the first of them, the number of entries that it
-- has read and not acknowledged and the name of the first of them (nil if there is none), and the last entry that it
-- has read.
--
-- Redis cannot count the unread entries once some were deleted by hand ("lag" is nil); then the stream's length is
-- used, which is an upper bound.
local function group_place(stream, group, length)
  local place, lag = '0-0', nil
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if groups.err then groups = {} end
  local pending = { 0 }
  for _, each in ipairs(groups) do
    local one = {}
    for at = 1, #each, 2 do one[each[at]] = each[at + 1] end
    if one.name == group then
      place, lag = one['last-delivered-id'], tonumber(one.lag)
      pending = redis.call('XPENDING', stream, group)
    end
  end
  local next = redis.call('XRANGE', stream, '(' .. place, '+', 'COUNT', 1)[1]
  local unread = 0
  if next then
    local has_read_some = redis.call('XRANGE', stream, '-', place, 'COUNT', 1)[1]
    unread = has_read_some and math.min(length, lag or length) or length
  end
  return unread, next and next[1], pending[1], pending[1] > 0 and pending[2] or nil, place
end
