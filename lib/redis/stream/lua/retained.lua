-- Returns a function: true if the id index knows entries of this time (Unix milliseconds), which are those within
-- retention and those that may not have landed, however old they are.
--
-- The trimmer's last look (trim.lua) knows which entries have not landed; later ones count as not landed.
local function retained(stream, retention)
  local time = redis.call('TIME')
  local past = time[1] * 1000 + math.floor(time[2] / 1000) - retention
  local unlanded
  return function(ms)
    if ms > past then return true end
    if not unlanded then
      local look = redis.call('HMGET', '{' .. stream .. '}:looked', 'at', 'oldest')
      unlanded = math.min(tonumber(look[1] or 0), tonumber(look[2] or '') or math.huge)
    end
    return ms >= unlanded
  end
end
