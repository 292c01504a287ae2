#!lua flags=no-writes
-- Returns the lag of a consumer group.
--
-- KEYS[1]  the stream
-- ARGV     the group
-- Reply    the number of unread entries, or -1 if it is unknown; the number of pending entries; and the age of the
--          oldest one in milliseconds, or 0
local about = redis.pcall('XINFO', 'STREAM', KEYS[1])
if about.err then return { 0, 0, 0 } end
local unread, next, pending, held = group_place(KEYS[1], ARGV[1], fields(about))

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = tonumber(redis.call('HGET', '{' .. KEYS[1] .. '}:looked', 'since') or '')
local name = earlier(next, held)
if not name then return { unread, pending, 0 } end
local entry = redis.call('XRANGE', KEYS[1], name, name)[1] or { name, {} }
return { unread or -1, pending, math.max(0, now - accepted_at(name, entry[2], now, since)) }
