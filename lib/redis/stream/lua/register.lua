#!lua flags=allow-oom
-- Records the heartbeat of a consumer replica, or registers it, or lets it leave, in one atomic step. Also removes
-- members of the group without pending entries: those that have been idle for long, and the one that leaves. Deleting
-- a member would drop its pending entries.
--
-- KEYS[1]  the stream
-- ARGV     the replica's name, the lease in milliseconds, the maximum number of replicas (0: no limit; -1: this one
--          leaves), the group, and the idle time in milliseconds after which other members are removed
-- Reply    the number of replicas, including this one, and the number of those that precede it, in an order that
--          differs between streams; -1 if the maximum is reached and this one was not registered
local stream, name, group = KEYS[1], ARGV[1], ARGV[4]
local lease, max, idle = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5])
local replicas, leaves = '{' .. stream .. '}:replicas', max == -1
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('ZREMRANGEBYSCORE', replicas, '-inf', now - lease)
-- Removes heartbeats from before the clock was set back. A live replica sends another within a second.
redis.call('ZREMRANGEBYSCORE', replicas, now + lease, '+inf')
if leaves then
  redis.call('ZREM', replicas, name)
else
  if max > 0 and not redis.call('ZSCORE', replicas, name) and redis.call('ZCARD', replicas) >= max then return -1 end
  redis.call('ZADD', replicas, now, name)
  redis.call('PEXPIRE', replicas, lease)
end

local members = redis.pcall('XINFO', 'CONSUMERS', stream, group)
for _, list in ipairs(members.err and {} or members) do
  local member = fields(list)
  local is_over = member.name == name and leaves or member.name ~= name and member.idle > idle
  if is_over and member.pending == 0 then redis.call('XGROUP', 'DELCONSUMER', stream, group, member.name) end
end
local alive, preceding = redis.call('ZRANGE', replicas, 0, -1), 0
for _, other in ipairs(alive) do
  if redis.sha1hex(stream .. other) < redis.sha1hex(stream .. name) then preceding = preceding + 1 end
end
return { #alive, preceding }
