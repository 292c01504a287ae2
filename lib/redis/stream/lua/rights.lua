#!lua flags=no-writes
-- Returns the commands and keys that a program needs and this connection's user lacks. It runs none of the commands.
--
-- ARGV     the stream; for each command its name, the kind of its key (see KEYS_OF) or '', and its other arguments,
--          separated by spaces
local stream = ARGV[1]
local tag = '{' .. stream .. '}:'
local KEYS_OF = { [''] = '', stream = stream, ids = tag .. 'ids', slice = tag .. 'ids:1', queue = tag .. 'queue',
  looked = tag .. 'looked', replays = tag .. 'replays', erased = tag .. 'erased', replicas = tag .. 'replicas' }

local missing = {}
if not redis.acl_check_cmd then return missing end
for at = 2, #ARGV, 3 do
  local words = {}
  for word in string.gmatch(ARGV[at], '%S+') do words[#words + 1] = word end
  local key = KEYS_OF[ARGV[at + 1]]
  if key ~= '' then words[#words + 1] = key end
  for word in string.gmatch(ARGV[at + 2], '%S+') do words[#words + 1] = word end
  if not redis.acl_check_cmd(unpack(words)) then
    missing[#missing + 1] = ARGV[at] .. (key == '' and '' or ' on ' .. key)
  end
end
return missing
