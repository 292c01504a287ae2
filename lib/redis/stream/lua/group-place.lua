-- Returns the progress of a consumer group: the number of unread entries (nil if it is unknown) and the first one's
-- name, the number of pending entries and the first one's name (or nil), and true if Redis' own counter is right. A
-- missing group has read nothing. `about` has the fields of XINFO STREAM.
--
-- Redis counts the entries that a group reads, and 7.0 neither writes this counter to its append-only file nor sends it
-- to replicas: after a start or a promotion, its "lag" is too high. After the deletion of an unread entry, it is nil,
-- and then one too high. So the lag is used only in the state in which count.lua has corrected the counter. Otherwise a
-- few unread entries are counted here.
local function counter_state(about)
  local history = history_of()
  return history and history .. ' ' .. about['max-deleted-entry-id']
end

local UNREAD_MAX, UNREAD_BYTES = 1000, 1048576
local function group_place(stream, group, about)
  local found = group_fields(stream, group)
  local place, last = found and found['last-delivered-id'] or '0-0', about['last-generated-id']
  local pending = found and redis.call('XPENDING', stream, group) or { 0 }
  local next = place ~= last and redis.call('XRANGE', stream, '(' .. place, '+', 'COUNT', 1)[1]
  local lag = found and tonumber(found.lag)
  local is_right = lag and redis.call('HMGET', '{' .. stream .. '}:looked', 'counter')[1] == counter_state(about)
  local unread = 0
  if next then
    local has_read_some = redis.call('XRANGE', stream, '-', place, 'COUNT', 1)[1]
    if not has_read_some then unread = about.length
    elseif is_right then unread = math.min(about.length, lag)
    else
      local count, _, is_all = count_entries(stream, place, last, UNREAD_MAX, UNREAD_BYTES)
      unread = is_all and count or nil
    end
  end
  return unread, next and next[1], pending[1], pending[1] > 0 and pending[2] or nil, is_right
end
