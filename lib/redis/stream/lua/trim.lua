#!lua flags=allow-oom
-- Drops entries that the queue need not keep any more, and reports how far the group is behind. It runs concurrently
-- with accepting, also while the server is full or the queue idle, and any number of processes may call it: within
-- ARGV[5] of a look that another process made, it returns that look and does nothing.
--
-- KEYS[1]  the stream
-- ARGV     retention in milliseconds; the caller's clock (Unix time in milliseconds); the consumer group; how many
--          entries one call drops, about; how long a look is shared, in milliseconds
-- Reply    entries dropped; 1 if there is more to drop, else 0; entries that have not landed; the age of the oldest of
--          them in milliseconds; all entries; the bytes of memory that the server uses and its limit (0: it has none),
--          both -1 if the server does not report them; the names of entries taken off the group's list; and the
--          server's clock
--
-- Invariant: an entry is dropped only if it is past retention and the group has acknowledged it and all before it. A
-- group that does not exist has acknowledged nothing. The earlier of two clocks decides, the server's or the caller's,
-- so one that is ahead drops nothing. A slice of the id index (accept.lua) is dropped when its youngest id is past
-- retention and older than every entry that has not landed; notes of replays (replay.lua) when the last replay is.
--
-- An entry that was deleted by hand while a member held it would stop trimming for ever. It is taken off the group's
-- list when it is the oldest one there.
local ERASURE_MS = 48 * 3600000
local call, match = redis.call, string.match
local stream, group, limit = KEYS[1], ARGV[3], tonumber(ARGV[4])
local tag = '{' .. stream .. '}:'
local ids, looked, replays = tag .. 'ids', tag .. 'looked', tag .. 'replays'

local function fields(list)
  local named = {}
  for at = 1, #list, 2 do named[list[at]] = list[at + 1] end
  return named
end

-- Compares names of entries; a number is a time, and the first entry of it.
local function before(one, other)
  local oneMs, oneNumber = match(one, '^(%d+)-?(%d*)$')
  local otherMs, otherNumber = match(other, '^(%d+)-?(%d*)$')
  if oneMs ~= otherMs then return tonumber(oneMs) < tonumber(otherMs) end
  return (tonumber(oneNumber) or 0) < (tonumber(otherNumber) or 0)
end
local function earlier(one, other)
  if not one or not other then return one or other end
  return before(one, other) and one or other
end

local time = call('TIME')
local server_now = time[1] * 1000 + math.floor(time[2] / 1000)
local seen = fields(call('HGETALL', looked))
local function report(look, dropped, more, gone)
  local oldest = tonumber(look.oldest)
  local age = oldest and oldest > 0 and math.max(0, server_now - oldest) or 0
  local length, memory, limit = tonumber(look.length), tonumber(look.memory), tonumber(look.limit)
  return { dropped, more, tonumber(look.unlanded), age, length, memory, limit, gone, server_now }
end
local looked_at = tonumber(seen.at)
if looked_at and looked_at <= server_now and server_now - looked_at < tonumber(ARGV[5]) then
  return report(seen, 0, 0, {})
end

local past = string.format('%d', math.max(0, math.min(server_now, tonumber(ARGV[2])) - ARGV[1]))

local about = redis.pcall('XINFO', 'STREAM', stream)
local there = not about.err
about = there and fields(about) or { length = 0, ['last-generated-id'] = '0-0' }
local length = about.length
local unread, next, pending, held = group_place(stream, group, length)

-- XINFO shows which entries can have been deleted, so the oldest one in hand is rarely read.
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
local dropped, more = 0, #gone == limit and 1 or 0
if length > 0 then
  local bound = earlier(past, unlanded)
  dropped = call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', limit)
  -- It drops whole nodes while they fit into the limit; the rest, less than a node, goes entry by entry.
  if dropped >= limit / 2 then more = 1 else dropped = dropped + call('XTRIM', stream, 'MINID', '=', bound) end
end

-- A time past retention, and nothing as old as it waits to land.
local function is_over(entry)
  return before(entry, past) and not (unlanded and not before(entry, unlanded))
end

-- The younger of two slices begins where the older one ends; the newest one ends with the stream.
local starts = call('GET', ids)
if starts and more == 0 then
  local kept, over, ends = {}, {}, about['last-generated-id']
  for start in string.gmatch(starts, '%d+') do
    if is_over(ends) then over[#over + 1] = ids .. ':' .. start else kept[#kept + 1] = start end
    ends = start
  end
  if #over > 0 then
    -- Fact: deleting a hash of a million ids stops the server for a second. Choice: UNLINK, which frees it in another
    -- thread.
    call('UNLINK', unpack(over))
    if #kept > 0 then call('SET', ids, table.concat(kept, ' ')) else call('DEL', ids) end
  end
end

-- An erasure (stream-admin.ts) is noted for 48 hours, and while anything accepted before it may still land.
local over_ms = server_now - ERASURE_MS
if unlanded then over_ms = math.min(over_ms, tonumber(match(unlanded, '^%d+'))) end
call('ZREMRANGEBYSCORE', tag .. 'erased', '-inf', string.format('(%d', over_ms))

local last_replay = call('HMGET', replays, '\n')[1]
if last_replay and is_over(last_replay) then call('UNLINK', replays) end

-- A server that refuses INFO (a managed one, or a user without the right) does not report its memory.
local info = redis.pcall('INFO', 'memory')
info = type(info) == 'string' and info or ''
local look = {
  length = length - dropped, unlanded = unread + pending, oldest = unlanded and match(unlanded, '^%d+') or '',
  at = more == 0 and server_now or 0,
  memory = match(info, 'used_memory:(%d+)') or -1, limit = match(info, 'maxmemory:(%d+)') or -1,
}
if there or looked_at then
  local list = {}
  for name, value in pairs(look) do list[#list + 1], list[#list + 2] = name, value end
  call('HSET', looked, unpack(list))
end
return report(look, dropped, more, gone)
