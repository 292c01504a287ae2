-- Figures of the server. Managed servers refuse INFO, and some users have no right to it.
local function info_of(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end

-- Returns the name of the server's history of writes, or nil. It changes with each start and each promotion.
local function history_of()
  return string.match(info_of('replication'), 'master_replid:(%x+)')
end

-- A replica counts while it acknowledges its data every second, as for min-replicas-max-lag.
local REPLICA_LAG_S = 10
local function replicas_of()
  local info, replicas = info_of('replication'), 0
  if not string.match(info, 'role:master') then return -1 end
  for lag in string.gmatch(info, 'state=online,offset=%d+,lag=(%d+)') do
    if tonumber(lag) <= REPLICA_LAG_S then replicas = replicas + 1 end
  end
  return replicas
end
