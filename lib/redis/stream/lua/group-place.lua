-- Returns the progress of a consumer group on a stream of this length: the number of unread entries and the first
-- one's name, and the number of pending entries and the first one's name (or nil). After deletions by
-- hand, Redis does not know the number of unread entries ("lag" is nil), so the stream's length is returned as an
-- upper bound. A missing group has read nothing.
local function group_place(stream, group, length)
  local found = group_fields(stream, group)
  local place = found and found['last-delivered-id'] or '0-0'
  local pending = found and redis.call('XPENDING', stream, group) or { 0 }
  local next = redis.call('XRANGE', stream, '(' .. place, '+', 'COUNT', 1)[1]
  local unread = 0
  if next then
    local has_read_some = redis.call('XRANGE', stream, '-', place, 'COUNT', 1)[1]
    unread = has_read_some and math.min(length, found and tonumber(found.lag) or length) or length
  end
  return unread, next and next[1], pending[1], pending[1] > 0 and pending[2] or nil
end
