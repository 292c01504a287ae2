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
local ERASURE_MS = 35 * 24 * 3600000
-- A name may be this much later than the clock.
local AHEAD_MS = 1000
-- The number of entries whose times one call reads while names are later than the clock.
local PAGE = 100
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
local unread, next, pending, held = group_place(stream, group, length)

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
local dropped, more = 0, #gone == limit
if length > 0 then
  local bound = earlier(past, unlanded)
  dropped = call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', limit)
  -- `~` removes only whole nodes, up to the limit. The rest, less than a node, is removed exactly.
  if dropped >= limit / 2 then more = true else dropped = dropped + call('XTRIM', stream, 'MINID', '=', bound) end
  if since and not more then
    local page, kept = call('XRANGE', stream, '-', '+', 'COUNT', PAGE), 1
    while page[kept] and time_of(page[kept]) < tonumber(past) and (not unlanded or before(page[kept][1], unlanded)) do
      kept = kept + 1
    end
    local first = page[kept] or call('XRANGE', stream, '(' .. page[#page][1], '+', 'COUNT', 1)[1]
    if kept > 1 then
      local how, bound = first and 'MINID' or 'MAXLEN', first and first[1] or 0
      dropped = dropped + call('XTRIM', stream, how, '=', bound)
      more = kept > PAGE
    end
  end
end

local function is_over(entry)
  return before(entry, past) and not (unlanded and not before(entry, unlanded))
end

-- A slice ends where the next one begins; the newest one ends with the stream.
local starts = call('GET', ids)
local turned, ended, ends_at = tonumber(seen.turned), {}, {}
if starts and not more then
  local kept, over, ends = {}, {}, about['last-generated-id']
  for start, at in string.gmatch(since and seen.ended or '', '(%d+):(%d+)') do ends_at[start] = tonumber(at) end
  turned = since and math.max(since, math.min(server_now, turned or since))
  local newest = match(starts, '^%d+')
  if newest and since and server_now - turned >= ARGV[1] / 3 then
    -- A slice's start must not be later than its entries.
    starts, turned = string.format('%d', newest - 1) .. ' ' .. starts, server_now
  end
  for start in string.gmatch(starts, '%d+') do
    local at = since and ends ~= about['last-generated-id'] and (ends_at[start] or server_now)
    if at then ended[#ended + 1] = start .. ':' .. string.format('%d', at) end
    local is_past = is_over(ends) or at and at < tonumber(past) and not (oldest and oldest <= at)
    if is_past then over[#over + 1] = ids .. ':' .. start else kept[#kept + 1] = start end
    ends = start
  end
  if since then kept[#kept + 1] = '!' end
  if #over > 0 then
    -- Fact: deleting a hash of a million ids blocks the server for a second. Choice: UNLINK, which frees it in a
    -- thread.
    call('UNLINK', unpack(over))
  end
  local left = table.concat(kept, ' ')
  if left == '' then call('DEL', ids) elseif left ~= call('GET', ids) then call('SET', ids, left) end
end

-- An erasure is noted for 35 days, so that it outlives backups of the warehouse, or for as long as an event that was
-- accepted before it may still land.
local over_ms = server_now - ERASURE_MS
if oldest then over_ms = math.min(over_ms, oldest) end
call('ZREMRANGEBYSCORE', tag .. 'erased', '-inf', string.format('(%d', over_ms))

local last_replay = call('HMGET', replays, '\n')[1]
if last_replay and is_over(last_replay) then call('UNLINK', replays) end

-- Managed servers refuse INFO, and some users have no right to it.
local info = redis.pcall('INFO', 'memory')
info = type(info) == 'string' and info or ''

-- A replica counts while it acknowledges its data every second, as for min-replicas-max-lag.
local REPLICA_LAG_S = 10
local replication = redis.pcall('INFO', 'replication')
local replicas = type(replication) == 'string' and match(replication, 'role:master') and 0 or -1
if replicas == 0 then
  for lag in string.gmatch(replication, 'state=online,offset=%d+,lag=(%d+)') do
    if tonumber(lag) <= REPLICA_LAG_S then replicas = replicas + 1 end
  end
end

local look = {
  length = length - dropped, unlanded = unread + pending,
  acknowledged = (about['entries-added'] or 0) - unread - pending, consumers = call('ZCARD', tag .. 'replicas'),
  replicas = replicas, oldest = oldest and string.format('%d', oldest) or '',
  at = more and 0 or server_now, ahead = ahead, since = since or '', turned = turned or '',
  ended = table.concat(ended, ' '),
  memory = match(info, 'used_memory:(%d+)') or -1, limit = match(info, 'maxmemory:(%d+)') or -1,
}
local list = {}
for name, value in pairs(look) do list[#list + 1], list[#list + 2] = name, value end
if there or looked_at then call('HSET', looked, unpack(list)) end
return { list, server_now, dropped, more and 1 or 0, gone, server_now }
