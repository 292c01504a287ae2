#!lua flags=allow-oom
-- Removes members of a consumer group that hold nothing. A member that holds pending entries stays, because to delete
-- it would drop them from the group's list; asking and deleting are one step here, so nothing can come in between.
--
-- KEYS[1]  the stream
-- ARGV     the group, a member's name, milliseconds
-- With 0 milliseconds the named member leaves and is no replica any more; else every other member leaves that has
-- given no sign of life for as long.
local stream, group, name, idle = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
if idle == 0 then redis.call('ZREM', '{' .. stream .. '}:replicas', name) end

local members = redis.pcall('XINFO', 'CONSUMERS', stream, group)
if members.err then return 0 end
local left = 0
for _, fields in ipairs(members) do
  local member = {}
  for at = 1, #fields, 2 do member[fields[at]] = fields[at + 1] end
  local asked = idle == 0 and member.name == name or idle > 0 and member.name ~= name and member.idle > idle
  if asked and member.pending == 0 then
    redis.call('XGROUP', 'DELCONSUMER', stream, group, member.name)
    left = left + 1
  end
end
return left
