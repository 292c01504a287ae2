-- fields converts a list of alternating names and values. group_fields does so for one consumer group; it returns nil
-- if the stream or the group is missing.
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
