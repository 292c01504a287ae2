#!lua flags=no-writes
-- Looks through a part of the stream for the entries of one event.
--
-- KEYS[1]  the stream
-- ARGV     the entry to begin behind ('-': the beginning), entries to look at, the event's id, texts of which a body
--          holds one when it can be that event's
-- Reply    the last entry looked at (nothing at the end), how many were looked at, their bytes, and those that can be
--          the event's
local from, count = ARGV[1], tonumber(ARGV[2])
local page = redis.call('XRANGE', KEYS[1], from == '-' and '-' or '(' .. from, '+', 'COUNT', count)
local found, bytes = {}, 0
for _, entry in ipairs(page) do
  local members = entry[2]
  for name = 1, #members, 2 do
    local matches = members[name] == 'id' and members[name + 1] == ARGV[3]
    if matches and found[#found] ~= entry then found[#found + 1] = entry end
    if members[name] == 'body' then
      local body = members[name + 1]
      bytes = bytes + #body
      for at = 4, #ARGV do
        if found[#found] ~= entry and string.find(body, ARGV[at], 1, true) then
          found[#found + 1] = entry
          break
        end
      end
    end
  end
end
return { #page == count and page[#page][1] or false, #page, bytes, found }
