#!lua flags=no-writes
-- Returns the commands and keys that a program needs and this connection's user lacks. It runs none of the commands.
--
-- ARGV     the stream, and the commands: see rights.ts
local missing = {}
if not redis.acl_check_cmd then return missing end
for at = 2, #ARGV do
  local words, what = {}, nil
  for word in string.gmatch(ARGV[at], '%S+') do
    local kind = string.match(word, '^K:(.+)$')
    local key = word == 'S' and ARGV[1] or kind and '{' .. ARGV[1] .. '}:' .. kind
    if key then what = table.concat(words, ' ') .. ' on ' .. key end
    words[#words + 1] = key or word
  end
  if not redis.acl_check_cmd(unpack(words)) then missing[#missing + 1] = what or words[1] end
end
return missing
