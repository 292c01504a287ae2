#!lua
-- Accepts a batch of events in one atomic step: each is appended to the stream and noted in the id index, or neither.
-- One Redis server runs one script at a time, so two producers of one id are decided here.
--
-- KEYS[1]  the stream
-- ARGV[1]  retention in milliseconds, at most 10 ^ 10; alone it makes the call a probe: it writes nothing, but the
--          server refuses it as it would refuse a write (full, read-only, loading, cannot persist). ` notes` may stand
--          behind the number
-- ARGV     then, for at most 1,000 events, the index field of each, and behind them producer and body of each; with
--          ` notes` also the entry's further members, names and values by turns, each ended by a line feed
-- Reply    a string with one digit for each event: 0 accepted, 1 duplicate, 2 conflict, 3 duplicate whose body is
--          another one, 6 duplicate whose body must be compared by the caller: one of both is compressed
--          (body-encoding.ts)
--
-- The id index. Ids are noted in one large hash for each slice of time, `{stream}:ids:<start>`. A slice begins with an
-- event that comes a third of retention or more after the last slice's start, and is named by that event's time.
-- `{stream}:ids` lists the starts, newest first. New ids go in the newest slice; every slice is asked. trim.lua drops
-- one as a whole when its youngest id is past retention, as a rule three older ones are left.
--
-- Fact: each older slice adds 8 % to an event's cost, and fewer slices hold more ids past retention. Choice: thirds.
-- Effect: the index has 1 to 1.33 times the ids that are within retention; halves would have up to 1.5 times, and too
-- much memory.
local SLICES = 3

local ARGV, call, match, sub = ARGV, redis.call, string.match, string.sub
local retention, notes = match(ARGV[1], '^(%d+)(.*)$')
local width = notes == '' and 2 or 3
local count = (#ARGV - 1) / (width + 1)
if count == 0 then return '' end
-- The producer of event n is argument `before + n * width`.
local before = count + 2 - width

local stream = KEYS[1]
local ids = '{' .. stream .. '}:ids'
local starts = call('GET', ids) or ''

-- Fact: TIME and a MINID in each call's first XADD take a tenth of a call. Choice: XADD names the entries, which also
-- keeps them ascending when the clock goes back, and the clock is read only where past retention matters: an entry's
-- time may be ahead of it.
local function oldest()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000) - retention
end

-- Fact: a `redis.call` costs more than what the command does. Choice: one HMGET for each slice and one HSET carry the
-- ids of a whole call. Effect: 0.57 of the CPU time for each event of an HSETNX into a small compact hash for each id,
-- in calls of 8 on a queue of 10,000 events, and 0.4 of it on one of 1,000,000: what an event costs does not grow with
-- the queue.
local known = nil
local function ask(start)
  local values = call('HMGET', ids .. ':' .. start, unpack(ARGV, 2, count + 1))
  for at = 1, count do
    if values[at] then
      known = known or {}
      known[at] = known[at] or { start, values[at] }
    end
  end
end
local space = string.find(starts, ' ', 1, true)
local newest = space and sub(starts, 1, space - 1) or starts
if newest ~= '' then ask(newest) end
if space then
  for start in string.gmatch(sub(starts, space), '%d+') do ask(start) end
end

-- From here on `known` has '1', '2' or '3' for an id whose entry stands on the stream within retention, and nothing for
-- any other: a 202 says that the queue has the event, so an id whose entry was deleted or cut by hand is not known any
-- more.
if known then
  local past = oldest()
  for at, noted in pairs(known) do
    local start, value, verdict = noted[1], noted[2], nil
    local entry = entry_name(start, value)
    local found = tonumber(match(entry, '^%d+')) > past and call('XRANGE', stream, entry, entry)[1]
    if found then
      verdict = '2'
      local members, mine, same = found[2], false, false
      local encoded = width == 3 and string.find(ARGV[before + at * width + 2], 'encoding\n', 1, true)
      for name = 1, #members, 2 do
        if members[name] == 'encoding' then encoded = true end
        if members[name] == 'producer' then mine = members[name + 1] == ARGV[before + at * width] end
        if members[name] == 'body' then same = members[name + 1] == ARGV[before + at * width + 1] end
      end
      if mine then verdict = same and '1' or encoded and '6' or '3' end
    end
    known[at] = verdict
  end
end

-- Events come first and ids after them: were there an error in between, an event could come twice, which the warehouse
-- notices; an id without its event could cost one.
--
-- Fact: field and value take 16 bytes each in a large hash while they have at most 14, and their entry 32; the table
-- takes 8 to 24 more. Choice: fields of at most 14 bytes (id-index.ts), and as value the entry's id without its first 3
-- digits, which are the start's. Effect: at 300 bytes an event the index takes 0.19 to 0.24 of what the stream takes,
-- the latter just after the table has doubled.
local verdicts = nil
local firsts, noted, size, first = {}, {}, 0, nil
for at = 1, count do
  local field, here = ARGV[at + 1], before + at * width
  local producer, body = ARGV[here], ARGV[here + 1]
  local verdict = known and known[at]
  local earlier = firsts[field]
  if earlier then
    verdict = '2'
    if ARGV[earlier] == producer then verdict = ARGV[earlier + 1] == body and '1' or '3' end
  end

  if verdict then
    verdicts = verdicts or {}
    verdicts[at] = verdict
  else
    local entry
    if width == 2 then
      entry = call('XADD', stream, '*', 'producer', producer, 'body', body)
    else
      local members = { 'producer', producer, 'body', body }
      for line in string.gmatch(ARGV[here + 2], '([^\n]*)\n') do members[#members + 1] = line end
      entry = call('XADD', stream, '*', unpack(members))
    end
    first = first or entry
    firsts[field] = here
    noted[size + 1] = field
    size = size + 2
    noted[size] = sub(entry, PREFIX + 1)
  end
end

if first then
  local ms = match(first, '^%d+')
  local age = #newest == #ms and ms - newest
  if age and age >= 0 and age < retention / SLICES then
    call('HSET', ids .. ':' .. newest, unpack(noted))
  else
    call('HSET', ids .. ':' .. ms, unpack(noted))
    call('SET', ids, starts == '' and ms or ms .. ' ' .. starts)
  end
end

if not verdicts then return string.rep('0', count) end
for at = 1, count do verdicts[at] = verdicts[at] or '0' end
return table.concat(verdicts)
