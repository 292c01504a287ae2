#!lua flags=no-writes
-- Returns the commands and keys that a program needs and the user lacks; and, if the user lacks none, the keys that
-- have another type than the program needs. It runs only a read of each key: the server logs refusals.
--
-- ARGV     the stream, which is part of each key, and the commands
local READS = { get = true, hget = true, hmget = true, xinfo = true, zcard = true, zscore = true }
local missing, reads, others = {}, {}, {}
for at = 2, redis.acl_check_cmd and #ARGV or 0 do
  local words, shown = {}, nil
  for word in string.gmatch(ARGV[at], '%S+') do
    if string.find(word, ARGV[1], 1, true) then
      shown = table.concat(words, ' ') .. ' on ' .. word
      if READS[words[1]] then reads[word] = words end
    end
    words[#words + 1] = word
  end
  -- It raises an error for a command that the server does not have under this name.
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  if not known then missing[#missing + 1] = words[1] .. ' (unknown to the server)'
  elseif not may then missing[#missing + 1] = shown or words[1] end
end
if #missing > 0 then return { missing, others } end
for key, words in pairs(reads) do
  local reply = redis.pcall(unpack(words))
  if type(reply) == 'table' and string.find(reply.err or '', '^WRONGTYPE') then others[#others + 1] = key end
end
return { missing, others }
