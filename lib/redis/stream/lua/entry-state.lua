-- entry_state returns the state of an entry for a consumer group, and the member that holds it. The states are
-- 'unread', 'held', 'done' (acknowledged) and 'gone' (deleted and not pending). A missing group has read nothing,
-- because it will be created at the beginning.
local function last_delivered(stream, group)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  if groups.err then return '0-0' end
  for _, fields in ipairs(groups) do
    local one = {}
    for at = 1, #fields, 2 do one[fields[at]] = fields[at + 1] end
    if one.name == group then return one['last-delivered-id'], true end
  end
  return '0-0'
end

local function entry_state(stream, group, entry)
  local last, there = last_delivered(stream, group)
  if there then
    local pending = redis.call('XPENDING', stream, group, entry, entry, 1)[1]
    if pending then return 'held', pending[2] end
  end
  if not redis.call('XRANGE', stream, entry, entry)[1] then return 'gone' end
  local ms, number = string.match(entry, '^(%d+)-(%d+)$')
  local lastMs, lastNumber = string.match(last, '^(%d+)-(%d+)$')
  local read = tonumber(ms) < tonumber(lastMs) or ms == lastMs and tonumber(number) <= tonumber(lastNumber)
  return read and 'done' or 'unread'
end
