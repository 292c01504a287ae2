#!lua flags=allow-oom
-- Drops what the queue need not keep any more, notices what was lost, and says how far the group is behind. It runs
-- concurrently with accepting, also while the server is full or the queue idle, and any number of processes may call
-- it: a look that another process made less than ARGV[6] ago is given again, and nothing is done.
--
-- KEYS[1]  the stream
-- ARGV     retention in milliseconds; how long an entry that has not landed stays, in milliseconds; the caller's clock
--          (Unix time in milliseconds); the consumer group; how many entries one call drops, about; how long a look
--          counts as new, in milliseconds
-- Reply    entries dropped; events lost; 1 when there is more to drop, else 0; entries that have not landed; the age of
--          the oldest of them in milliseconds; all entries; the bytes of memory that the server uses and its limit (0:
--          it has none), both -1 where it does not tell
--
-- An entry is dropped when it is past retention and the group has acknowledged it and all before it, or when it is past
-- the longer time. A group that does not exist has acknowledged nothing. The earlier one of two clocks counts, the
-- server's and the caller's, so that one that is ahead drops nothing. A slice of the id index (accept.lua) is dropped
-- when its youngest id is past retention and before all that has not landed.
--
-- An event is lost when it is dropped before the group has acknowledged it: by the longer time, or by hand before the
-- group has read it. Deletions by hand show in the stream's counters: more are missing than this script dropped, and
-- either what is left begins behind the group's place, or a deleted entry is behind it. It is an upper bound where
-- entries landed, or landed ones were deleted, between the last look and this one, and where a member that holds an
-- entry still lands it. What is deleted by hand after a member has read it is counted when it is claimed from that
-- member (claim.lua). `{stream}:looked` has the last look.
local call, match = redis.call, string.match
local stream, group = KEYS[1], ARGV[4]
local ids, looked = '{' .. stream .. '}:ids', '{' .. stream .. '}:looked'
local limit = tonumber(ARGV[5])

local function fields(list)
  local named = {}
  for at = 1, #list, 2 do named[list[at]] = list[at + 1] end
  return named
end

-- Whether the entry of this name comes before that one; a number is a time, and the first entry of it.
local function before(one, other)
  local oneMs, oneNumber = match(one, '^(%d+)-?(%d*)$')
  local otherMs, otherNumber = match(other, '^(%d+)-?(%d*)$')
  if oneMs ~= otherMs then return tonumber(oneMs) < tonumber(otherMs) end
  return (tonumber(oneNumber) or 0) < (tonumber(otherNumber) or 0)
end
local function earlier(one, other)
  if not other or before(one, other) then return one end
  return other
end

local time = call('TIME')
local server_now = time[1] * 1000 + math.floor(time[2] / 1000)
local seen = fields(call('HGETALL', looked))
local function report(of, dropped, lost, more)
  local oldest = tonumber(of.oldest)
  local age = oldest and oldest > 0 and math.max(0, server_now - oldest) or 0
  local length, memory, limit = tonumber(of.length), tonumber(of.memory), tonumber(of.limit)
  return { dropped, lost, more, tonumber(of.unlanded), age, length, memory, limit }
end
local looked_at = tonumber(seen.at)
if looked_at and looked_at <= server_now and server_now - looked_at < tonumber(ARGV[6]) then
  return report(seen, 0, 0, 0)
end

local now = math.min(server_now, tonumber(ARGV[3]))
local past = string.format('%d', math.max(0, now - ARGV[1]))
local longPast = string.format('%d', math.max(0, now - ARGV[2]))

local about = redis.pcall('XINFO', 'STREAM', stream)
local there = not about.err
local NEW = { length = 0, ['entries-added'] = 0, ['last-generated-id'] = '0-0', ['recorded-first-entry-id'] = '0-0' }
about = there and fields(about) or NEW
local length, added, last = about.length, about['entries-added'], about['last-generated-id']
local first, tombstone = about['recorded-first-entry-id'], about['max-deleted-entry-id'] or '0-0'
local unread, next, pending, held, place = group_place(stream, group, length)

-- What was lost by hand since the last look.
local lost = 0
if seen.added then
  local had_unread = tonumber(seen.unread)
  if added < tonumber(seen.added) then
    lost = had_unread -- the stream was deleted
  else
    local came = added - seen.added
    local missing = seen.length + came - length
    if missing > 0 then
      if length == 0 or before(seen.place, first) then
        lost = math.max(0, math.min(missing, had_unread + came - length))
      elseif before(seen.place, tombstone) and tombstone ~= seen.tombstone then
        lost = missing
      end
    end
  end
end

local dropped, more = 0, 0
local function drop(bound)
  local some = call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', limit)
  -- It drops whole nodes while they fit into the limit; the rest, less than a node, goes entry by entry.
  if some >= limit / 2 then more = 1 else some = some + call('XTRIM', stream, 'MINID', '=', bound) end
  dropped = dropped + some
  return some
end

-- Entries past the longer time that were read and never acknowledged. A member that holds one cannot read it again, so
-- it is taken off the group's list, and counted here alone.
local function drop_held()
  local left = call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
  local list = call('XPENDING', stream, group, '-', '(' .. longPast .. '-0', limit)
  for _, each in ipairs(list) do
    if left and not before(each[1], left[1]) then return end
    call('XACK', stream, group, each[1])
    lost, pending = lost + 1, pending - 1
  end
  if #list == limit then more = 1 end
end

local unlanded = next or held
if next and held then unlanded = earlier(next, held) end
if length > 0 then drop(unlanded and earlier(past, unlanded) or past) end
if more == 0 and unlanded and before(unlanded, longPast) then
  -- First what was read, then what was not: only of that each one is lost.
  if length > 0 then drop(next and earlier(longPast, next) or longPast) end
  if more == 0 and next then
    local late = drop(longPast)
    lost = lost + late
    unread = math.max(0, unread - late)
  end
  if held then drop_held() end
end

-- The younger of two slices begins where the older one ends; the newest one ends with the stream.
local starts = call('GET', ids)
if starts and more == 0 then
  local kept, gone, ends = {}, {}, last
  for start in string.gmatch(starts, '%d+') do
    if before(ends, past) and not (unlanded and not before(ends, unlanded)) then
      gone[#gone + 1] = ids .. ':' .. start
    else
      kept[#kept + 1] = start
    end
    ends = start
  end
  if #gone > 0 then
    -- Fact: a hash of a million ids that is deleted stops the server for a second. Choice: UNLINK, which frees it in
    -- another thread.
    call('UNLINK', unpack(gone))
    if #kept > 0 then call('SET', ids, table.concat(kept, ' ')) else call('DEL', ids) end
  end
end

-- A server that refuses INFO (a managed one, or a user without the right) does not tell its memory.
local info = redis.pcall('INFO', 'memory')
info = type(info) == 'string' and info or ''
local oldest = ''
if dropped > 0 or lost > 0 then
  local _
  _, next, _, held = group_place(stream, group, length - dropped)
end
for _, name in pairs({ next or '', held or '' }) do
  local ms = match(name, '^%d+')
  if ms and (oldest == '' or ms - oldest < 0) then oldest = ms end
end
local look = {
  added = added, length = length - dropped, unread = unread, place = place, tombstone = tombstone,
  at = more == 0 and server_now or 0, unlanded = unread + pending, oldest = oldest,
  memory = match(info, 'used_memory:(%d+)') or -1, limit = match(info, 'maxmemory:(%d+)') or -1,
}
if there or seen.added then
  local list = {}
  for name, value in pairs(look) do list[#list + 1], list[#list + 2] = name, value end
  call('HSET', looked, unpack(list))
end
return report(look, dropped, lost, more)
