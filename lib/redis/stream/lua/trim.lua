#!lua flags=allow-oom
-- Removes entries that the queue need not keep, and reports the lag of the group. Any number of processes may call
-- it, even while the server is full or the queue is idle. If another process called it within ARGV[5], it returns
-- that report: the oldest entry of then may have landed since, so its age is not measured again.
--
-- KEYS[1]  the stream
-- ARGV     retention in milliseconds, the caller's clock (Unix milliseconds), the consumer group, the approximate
--          maximum number of removed entries, and how long a report is shared, in milliseconds
-- Reply    the report (alternating names and values; -1 if the server does not report a value), its time, the number of
--          removed entries, 1 if there are more, the removed names of the group's list, and the server's time
--
-- Invariant: an entry is removed only if it is past retention by the server's clock and the caller's, and the group
-- has acknowledged it and all entries before it. A missing group has acknowledged nothing. A slice of the id index
-- (accept.lua) is removed when its youngest id is past retention and older than every unlanded entry; so are the
-- notes of replays.
--
-- After the server's clock was set back, entries are named later than the clock, perhaps for weeks. Meanwhile, an entry
-- is as old as the time that accept.lua noted in it, and a slice of the id index begins every third of retention here.
--
-- An entry that was deleted by hand while it was pending would block trimming forever, so it is removed from the
-- group's list when it is the oldest one there.
-- Includes: trim-entries.lua and trim-ids.lua remove, and server-figures.lua reports.
local ERASURE_MS = 35 * 24 * 3600000
-- A name may be this much later than the clock.
local AHEAD_MS = 1000
local call, match = redis.call, string.match
local stream, group, limit = KEYS[1], ARGV[3], tonumber(ARGV[4])
local tag = '{' .. stream .. '}:'
local ids, looked, replays = tag .. 'ids', tag .. 'looked', tag .. 'replays'

local time = call('TIME')
local server_now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = call('HGETALL', looked)
local seen = fields(last)
local looked_at = tonumber(seen.at)
if looked_at and looked_at <= server_now and server_now - looked_at < tonumber(ARGV[5]) then
  return { last, looked_at, 0, 0, {}, server_now }
end

local past = string.format('%d', math.max(0, math.min(server_now, tonumber(ARGV[2])) - ARGV[1]))

local about = redis.pcall('XINFO', 'STREAM', stream)
local there = not about.err
about = there and fields(about) or { length = 0, ['last-generated-id'] = '0-0' }
local length = about.length
local ahead = math.max(0, tonumber(match(about['last-generated-id'], '^%d+')) - server_now)
local since = ahead > AHEAD_MS and math.min(server_now, tonumber(seen.since) or server_now) or nil
local unread, next, pending, held, is_right = group_place(stream, group, about)

-- XINFO shows which entries may have been deleted, so the oldest pending one is rarely read.
local function may_be_gone(entry)
  return length == 0 or before(entry, about['recorded-first-entry-id'])
    or not before(about['max-deleted-entry-id'], entry)
end
local gone = {}
while held and #gone < limit and may_be_gone(held) and not call('XRANGE', stream, held, held)[1] do
  call('XACK', stream, group, held)
  gone[#gone + 1], pending = held, pending - 1
  held = (call('XPENDING', stream, group, '-', '+', 1)[1] or {})[1]
end

local unlanded = earlier(next, held)
local function time_of(entry)
  return accepted_at(entry[1], entry[2], server_now, since)
end
local oldest = nil
if unlanded then
  oldest = time_of(since and call('XRANGE', stream, unlanded, unlanded)[1] or { unlanded, {} })
end
local function is_over(entry)
  return before(entry, past) and not (unlanded and not before(entry, unlanded))
end

local dropped, more = 0, #gone == limit
if length > 0 then
  local has_more
  dropped, has_more = trim_entries(stream, past, unlanded, limit, since and time_of)
  more = more or has_more
end
local turned, ended = seen.turned or '', seen.ended or ''
if not more then
  turned, ended = trim_ids(ids, ARGV[1], past, server_now, about['last-generated-id'], is_over, oldest, since, seen)
end

-- An erasure is noted for 35 days, so that it outlives backups of the warehouse, or for as long as an event that was
-- accepted before it may still land.
local over_ms = server_now - ERASURE_MS
if oldest then over_ms = math.min(over_ms, oldest) end
call('ZREMRANGEBYSCORE', tag .. 'erased', '-inf', string.format('(%d', over_ms))

local last_replay = call('HMGET', replays, '\n')[1]
if last_replay and is_over(last_replay) then call('UNLINK', replays) end

local memory = info_of('memory')
local look = {
  length = length - dropped, unlanded = (unread or length) + pending, uncounted = unread and 0 or 1,
  recount = there and not is_right and 1 or 0,
  acknowledged = unread and (about['entries-added'] or 0) - unread - pending or -1,
  consumers = call('ZCARD', tag .. 'replicas'), replicas = replicas_of(),
  oldest = oldest and string.format('%d', oldest) or '',
  at = more and 0 or server_now, ahead = ahead, since = since or '', turned = turned, ended = ended,
  memory = match(memory, 'used_memory:(%d+)') or -1, limit = match(memory, 'maxmemory:(%d+)') or -1,
}
local list = {}
for name, value in pairs(look) do list[#list + 1], list[#list + 2] = name, value end
if there or looked_at then call('HSET', looked, unpack(list)) end
return { list, server_now, dropped, more and 1 or 0, gone, server_now }
