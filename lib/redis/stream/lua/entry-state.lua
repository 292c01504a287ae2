-- entry_state returns the state of an entry for a consumer group, and the member that holds it. The states are
-- 'unread', 'held', 'done' (acknowledged) and 'gone' (deleted and not pending). A missing group has read nothing,
-- because it will be created at the beginning.
local found
local function entry_state(stream, group, entry, exists)
  found = found or group_fields(stream, group) or {}
  local pending = found.name and redis.call('XPENDING', stream, group, entry, entry, 1)[1]
  if pending then return 'held', pending[2] end
  if not exists and not redis.call('XRANGE', stream, entry, entry)[1] then return 'gone' end
  return before(found['last-delivered-id'] or '0-0', entry) and 'unread' or 'done'
end
