#!lua
-- Accepts a batch of events in one atomic step: each is appended to the stream and noted in the id index, or neither.
-- One Redis server runs one script at a time, so two producers of one id are decided here.
--
-- KEYS[1]  the stream
-- ARGV[1]  retention in milliseconds, at most 10 ^ 10; alone it makes the call a probe: it writes nothing, but the
--          server refuses it as it would refuse a write (full, read-only, loading, cannot persist). ` notes` may be
--          behind the number
-- ARGV     then, for at most 1,000 events, the index field of each, and behind them producer and body of each; with
--          ` notes` also the entry's further members, names and values by turns, each ended by a line feed; before
--          them, behind `=` and ended alike, the event's digests, which a body that is long or compressed must have
--          (id-index.ts)
-- Reply    a string with the digit 0 for each event: all were accepted. Else a list: first a list with a number for
--          each event, and behind it what the queue has of known ids, each once. The numbers: 0 accepted; n: the queue
--          has the n-th of these under the event's field; -n: the n-th event of this call, which was accepted, has the
--          same field. What the queue has: the digests of the event, or the members of its entry; nothing where this
--          call had read too much already. The caller compares, and decides what the event is.
--
-- The id index. Ids are noted in one large hash for each slice of time, `{stream}:ids:<start>`. A slice begins with an
-- event that comes a third of retention or more after the last slice's start, and is named by that event's time.
-- `{stream}:ids` lists the starts, newest first. New ids go in the newest slice; every slice is asked. trim.lua drops
-- one as a whole when its youngest id is past retention and has landed, as a rule three older ones are left.
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
-- keeps them ascending when the clock goes back, and the clock is read only where past retention matters
-- (retained.lua): an entry's time may be ahead of it.

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

-- Bytes that a call reads of entries; the last one may be longer. A repeated id is cheap for its producer, so what it
-- makes the server read is bounded as what it carries is (stream-queue.ts).
local READ_BYTES_MAX = 1048576

-- Fact: in a script an entry of 255 kB takes 0.7 ms to read, one of 8 MB 40 ms. Choice: an entry with digests is read
-- only where it may have been deleted by hand. How far the stream reaches is looked at once a second at most, because
-- that look reads the stream's first and last entry. Without this choice,
-- 256 small events with the id of an event of 8 MB took 17 s.
local BOUNDS_MS = 1000
local first_ms, first_number, deleted_ms, deleted_number
local function bounds()
  local key = '{' .. stream .. '}:bounds'
  local noted = call('GET', key)
  if not noted then
    -- Beyond every entry, where there is none.
    local first, deleted = '9999999999999999-0', '0-0'
    local about = redis.pcall('XINFO', 'STREAM', stream)
    for at = 1, #about, 2 do
      if about[at] == 'recorded-first-entry-id' and about[at + 1] ~= '0-0' then first = about[at + 1] end
      if about[at] == 'max-deleted-entry-id' then deleted = about[at + 1] end
    end
    noted = first .. ' ' .. deleted
    call('SET', key, noted, 'PX', BOUNDS_MS)
  end
  first_ms, first_number, deleted_ms, deleted_number = match(noted, '^(%d+)-(%d+) (%d+)-(%d+)$')
  first_ms, first_number = tonumber(first_ms), tonumber(first_number)
  deleted_ms, deleted_number = tonumber(deleted_ms), tonumber(deleted_number)
end
local function is_there(ms, number)
  if not first_ms then bounds() end
  return (ms > first_ms or ms == first_ms and number >= first_number)
    and (ms > deleted_ms or ms == deleted_ms and number > deleted_number)
end

-- From here on `known` has a number (see Reply) for an id whose entry is on the stream, within retention or not landed,
-- and nothing for any other: a 202 says that the queue has the event, so an id whose entry was deleted or cut by hand
-- is not known any more.
local witnesses = {}
if known then
  local keeps, numbers, bytes = retained(stream, retention), {}, 0
  local function witness(entry, digests)
    local ms, number = match(entry, '^(%d+)-(%d+)$')
    ms = tonumber(ms)
    if not keeps(ms) then return nil end
    if digests ~= '' and is_there(ms, tonumber(number)) then return digests end
    if bytes >= READ_BYTES_MAX then return false end
    local found = call('XRANGE', stream, entry, entry)[1]
    if not found then return nil end
    for at = 1, #found[2] do bytes = bytes + #found[2][at] end
    if digests ~= '' then return digests end
    return found[2]
  end
  for at, noted in pairs(known) do
    local key = noted[1] .. ' ' .. noted[2]
    local number = numbers[key]
    if number == nil then
      local found = witness(entry_name(noted[1], noted[2]))
      number = found ~= nil and #witnesses + 1
      if number then witnesses[number] = found end
      numbers[key] = number
    end
    known[at] = number or nil
  end
end

-- Events come first and ids after them: were there an error in between, an event could come twice, which the warehouse
-- notices; an id without its event could cost one.
--
-- Fact: field and value take 16 bytes each in a large hash while they have at most 14, and their entry 32; the table
-- takes 8 to 24 more. Choice: fields of at most 14 bytes (id-index.ts), and as value the entry's id without its first 3
-- digits, which are the start's. Effect: at 300 bytes an event the index takes 0.19 to 0.24 of what the stream takes,
-- the latter just after the table has doubled.
local marks = nil
local firsts, noted, size, first = {}, {}, 0, nil
for at = 1, count do
  local field, here = ARGV[at + 1], before + at * width
  local mark = known and known[at]
  if firsts[field] then mark = -firsts[field] end
  if mark then
    marks = marks or {}
    marks[at] = mark
  else
    local entry, digests
    if width == 2 then
      entry = call('XADD', stream, '*', 'producer', ARGV[here], 'body', ARGV[here + 1])
    else
      local members = { 'producer', ARGV[here], 'body', ARGV[here + 1] }
      local lines = ARGV[here + 2]
      digests = match(lines, '^=([^\n]*)\n')
      if digests then lines = sub(lines, #digests + 3) end
      for line in string.gmatch(lines, '([^\n]*)\n') do members[#members + 1] = line end
      entry = call('XADD', stream, '*', unpack(members))
    end
    first = first or entry
    firsts[field] = at
    noted[size + 1] = field
    size = size + 2
    noted[size] = sub(entry, PREFIX + 1)
    if digests then noted[size] = noted[size] .. ' ' .. digests end
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

if not marks then return string.rep('0', count) end
for at = 1, count do marks[at] = marks[at] or 0 end
return { marks, unpack(witnesses) }
