-- fields converts a list of alternating names and values. group_fields does so for one consumer group; it returns nil
-- if the stream or the group is missing. before compares the names of entries. A number means the first entry of that
-- time. earlier returns the first of two names, of which nil is the later one.
local function fields(list)
  local named = {}
  for at = 1, #list, 2 do named[list[at]] = list[at + 1] end
  return named
end

local function group_fields(stream, group)
  local groups = redis.pcall('XINFO', 'GROUPS', stream)
  for _, list in ipairs(groups.err and {} or groups) do
    local one = fields(list)
    if one.name == group then return one end
  end
end

local function before(one, other)
  local oneMs, oneNumber = string.match(one, '^(%d+)-?(%d*)$')
  local otherMs, otherNumber = string.match(other, '^(%d+)-?(%d*)$')
  if oneMs ~= otherMs then return tonumber(oneMs) < tonumber(otherMs) end
  return (tonumber(oneNumber) or 0) < (tonumber(otherNumber) or 0)
end

local function earlier(one, other)
  if not one or not other then return one or other end
  return before(one, other) and one or other
end
