#!lua flags=no-writes
-- Returns the commands and keys that a program needs and the user lacks. It runs none: the server logs refusals.
--
-- ARGV     the stream, which is part of each key, and the commands
local missing = {}
for at = 2, redis.acl_check_cmd and #ARGV or 0 do
  local words, shown = {}, nil
  for word in string.gmatch(ARGV[at], '%S+') do
    if string.find(word, ARGV[1], 1, true) then shown = table.concat(words, ' ') .. ' on ' .. word end
    words[#words + 1] = word
  end
  -- It raises an error for a command that the server does not have under this name.
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  if not known then missing[#missing + 1] = words[1] .. ' (unknown to the server)'
  elseif not may then missing[#missing + 1] = shown or words[1] end
end
return missing
