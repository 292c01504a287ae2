-- Returns a function: true if the id index still knows an entry, because the entry is within retention or may not
-- have landed. Entries later than the trimmer's last report (trim.lua) may not have landed.
local function retained(stream, retention)
  local time = redis.call('TIME')
  local past = time[1] * 1000 + math.floor(time[2] / 1000) - retention
  local unlanded
  return function(entry)
    local ms = tonumber(string.match(entry, '^%d+'))
    if ms > past then return true end
    if not unlanded then
      local look = redis.call('HMGET', '{' .. stream .. '}:looked', 'at', 'oldest')
      unlanded = math.min(tonumber(look[1] or 0), tonumber(look[2] or '') or math.huge)
    end
    return ms >= unlanded
  end
end
