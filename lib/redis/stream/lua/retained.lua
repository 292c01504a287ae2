-- Returns a function: true if the id index knows an entry of this name: one within retention, or one that may not have
-- landed, however old it is.
--
-- The trimmer's last look (trim.lua) knows which entries have not landed; later ones count as not landed.
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
