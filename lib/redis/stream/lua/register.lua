#!lua flags=allow-oom
-- Registers a consumer replica, or records its heartbeat, in one atomic step.
--
-- KEYS[1]  the stream
-- ARGV     the replica's name, the lease in milliseconds, and the maximum number of replicas (0: no limit)
-- Reply    the number of replicas, including this one; -1 if the maximum is reached and this one was not registered
local replicas = '{' .. KEYS[1] .. '}:replicas'
local name, lease, max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('ZREMRANGEBYSCORE', replicas, '-inf', now - lease)
-- Removes heartbeats from before the clock was set back. A live replica sends another within a second.
redis.call('ZREMRANGEBYSCORE', replicas, now + lease, '+inf')
if max > 0 and not redis.call('ZSCORE', replicas, name) and redis.call('ZCARD', replicas) >= max then return -1 end
redis.call('ZADD', replicas, now, name)
redis.call('PEXPIRE', replicas, lease)
return redis.call('ZCARD', replicas)
