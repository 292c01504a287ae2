-- Returns the time at which an entry was accepted, by the server's clock. After the clock was set back, entries are
-- named later than the clock. Then accept.lua notes the time in each entry; earlier ones were accepted before `since`,
-- when trim.lua found the difference.
local function accepted_at(name, members, now, since)
  local ms = tonumber(string.match(name, '^%d+'))
  if ms <= now then return ms end
  for at = 1, #members, 2 do
    if members[at] == 'clock' then return math.min(now, tonumber(members[at + 1]) or now) end
  end
  return since or now
end
