-- Returns the progress of a consumer group on a stream of this length: the number of unread entries and the first
-- one's name, the number of pending entries and the first one's name (nil if there is none), and the last entry that
-- the group has read. After deletions by hand, Redis does not know the number of unread entries ("lag" is nil), so
-- the stream's length is returned as an upper bound. A missing group has read nothing.
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
