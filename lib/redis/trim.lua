#!lua flags=allow-oom
-- Drops what the queue need not keep any more, and notices what was lost. It runs beside accepting, also while the
-- server is full or the queue idle, and any number of processes may call it.
--
-- KEYS[1]  the stream
-- ARGV     retention in milliseconds; how long an entry that has not landed stays, in milliseconds; the caller's clock
--          (Unix time in milliseconds); the consumer group; how many entries one call drops, about
-- Reply    entries dropped; events lost; 1 when there is more to drop, else 0
--
-- An entry is dropped when it is past retention and the group has acknowledged it and all before it, or when it is past
-- the longer time. Without the group retention alone decides. The earlier one of two clocks counts, the server's and
-- the caller's, so that one that is ahead drops nothing. A slice of the id index (accept.lua) is dropped with its
-- youngest id.
--
-- An event is lost when it is dropped before the group has read it: by the longer time, or by hand. Deletions by hand
-- show in the stream's counters: more are missing than this script dropped, and either what is left begins behind the
-- group's place, or a deleted entry is behind it. It is an upper bound where entries landed, or landed ones were
-- deleted, between the last look and this one. What the group has read is told and counted by the member that
-- acknowledges it. `{stream}:looked` has the counters of the last look.
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
local now = math.min(time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[3]))
local past = string.format('%d', math.max(0, now - ARGV[1]))
local longPast = string.format('%d', math.max(0, now - ARGV[2]))

local about = redis.pcall('XINFO', 'STREAM', stream)
local there = not about.err
about = there and fields(about) or { length = 0, ['entries-added'] = 0, ['last-generated-id'] = '0-0', ['recorded-first-entry-id'] = '0-0' }
local length, added, last = about.length, about['entries-added'], about['last-generated-id']
local first, tombstone = about['recorded-first-entry-id'], about['max-deleted-entry-id'] or '0-0'

local place, place_lag
if there then
  for _, each in ipairs(call('XINFO', 'GROUPS', stream)) do
    local one = fields(each)
    if one.name == group then place, place_lag = one['last-delivered-id'], one.lag end
  end
end

-- What was lost by hand since the last look.
local lost = 0
local seen = fields(call('HGETALL', looked))
if seen.added then
  local unread = tonumber(seen.unread)
  if added < tonumber(seen.added) then
    lost = unread -- the stream was deleted
  else
    local came = added - seen.added
    local missing = seen.length + came - length
    if missing > 0 then
      if length == 0 or before(seen.place, first) then
        lost = math.max(0, math.min(missing, unread + came - length))
      elseif before(seen.place, tombstone) and tombstone ~= seen.tombstone then
        lost = missing
      end
    end
  end
end

-- Unread entries: an upper bound once some were deleted by hand, as the server cannot count them then.
local unread = length
if place and not before(place, last) then
  unread = 0
elseif place and length > 0 and not before(place, first) then
  unread = math.min(length, tonumber(place_lag) or length)
end

local dropped, more = 0, 0
local function drop(bound)
  local some = call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', limit)
  -- It drops whole nodes while they fit into the limit; the rest, less than a node, goes entry by entry.
  if some >= limit / 2 then more = 1 else some = some + call('XTRIM', stream, 'MINID', '=', bound) end
  dropped = dropped + some
  return some
end

if length > 0 then
  local held = nil
  if place then
    local pending = call('XPENDING', stream, group)
    if pending[1] > 0 then held = pending[2] end
    local next = unread > 0 and call('XRANGE', stream, '(' .. place, '+', 'COUNT', 1)[1]
    if next then held = earlier(next[1], held) end
    drop(earlier(past, held))
    if more == 0 and held and before(held, longPast) then
      if next then drop(earlier(longPast, next[1])) else drop(longPast) end
      if more == 0 and next then
        local late = drop(longPast)
        lost = lost + late
        unread = math.max(0, unread - late)
      end
    end
  else
    drop(past)
    unread = length - dropped
  end
end

-- The younger of two slices begins where the older one ends; the newest one ends with the stream.
local starts = call('GET', ids)
if starts and more == 0 then
  local kept, gone, ends = {}, {}, last
  for start in string.gmatch(starts, '%d+') do
    if before(ends, past) then gone[#gone + 1] = ids .. ':' .. start else kept[#kept + 1] = start end
    ends = start
  end
  if #gone > 0 then
    -- Fact: a hash of a million ids that is deleted stops the server for a second. Choice: UNLINK, which frees it in
    -- another thread.
    call('UNLINK', unpack(gone))
    if #kept > 0 then call('SET', ids, table.concat(kept, ' ')) else call('DEL', ids) end
  end
end

local look = { 'added', added, 'length', length - dropped, 'unread', unread, 'place', place or '0-0', 'tombstone', tombstone }
local changed = not seen.added and there
for at = 1, #look, 2 do
  if seen.added and seen[look[at]] ~= tostring(look[at + 1]) then changed = true end
end
if changed then call('HSET', looked, unpack(look)) end
return { dropped, lost, more }
