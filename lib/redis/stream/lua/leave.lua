#!lua flags=allow-oom
-- Removes members without pending entries from a consumer group. Deleting a member would drop its pending entries, so
-- the check and the deletion are one atomic step.
--
-- KEYS[1]  the stream
-- ARGV     the group, a member's name, and milliseconds. With 0, this member leaves and is no longer a replica;
--          otherwise all other members that have been idle for longer are removed
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
