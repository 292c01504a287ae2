#!lua
-- Accepts a batch of events atomically: each is appended to the stream and recorded in the id index, or neither.
-- Redis runs one script at a time, so this script decides between two producers with the same id. It reads no entry.
--
-- KEYS[1]  the stream
-- ARGV[1]  retention in milliseconds, at most 10 ^ 10
-- ARGV[2]  the index field of each event; then for each its digests (id-index.ts), and with their lengths its producer
--          and its further members (alternating names and values, each followed by a line feed)
-- ARGV     the bodies of at most 1,000 events. Without them, the call is a probe, which writes nothing but is refused
--          like a write (server full, read-only, loading, cannot persist)
-- Reply    one digit per event: 0 accepted, 1 duplicate, 2 another producer's id, 3 duplicate with a different body
--
-- The id index has one large hash per slice of time, `{stream}:ids:<start>`. The first event after a third of
-- retention starts a new slice. `{stream}:ids` lists the starts, newest first. New ids are added to the newest slice,
-- and all slices are searched. trim.lua deletes a slice when its youngest id is past retention and has landed. It adds
-- a `!` to the starts while entries are named later than the clock: then each entry gets the member `clock`.
--
-- Fact: each older slice adds 8 % to an event's cost, and fewer slices hold more ids past retention. Choice: thirds.
-- Effect: the index has up to 1.33 times the ids within retention; with halves, it would have up to 1.5 times.
local SLICES = 3
-- The formats of a field, and of an event's digests (2 * DIGEST characters), producer and further members.
local FIELD, EVENT = 'c14', '>c16I4c0I4c0'

local ARGV, call, match, sub = ARGV, redis.call, string.match, string.sub
local retention, events, count = tonumber(ARGV[1]), ARGV[2], #ARGV - 2
if count < 1 then return '' end

local stream = KEYS[1]
local ids = '{' .. stream .. '}:ids'
local starts = call('GET', ids) or ''
local isAhead = string.find(starts, '!', 1, true)
local newest = match(starts, '^%d+')

-- Records new ids: alternating fields and values. `first` is the first of their entries.
local function record(first, ...)
  local ms = sub(first, 1, string.find(first, '-', 1, true) - 1)
  local age = newest and #newest == #ms and ms - newest
  if age and age >= 0 and age < retention / SLICES then return call('HSET', ids .. ':' .. newest, ...) end
  call('HSET', ids .. ':' .. ms, ...)
  call('SET', ids, starts == '' and ms or ms .. ' ' .. starts)
end

-- Fact: TIME, and a MINID in each call's first XADD, take a tenth of a call. Choice: XADD names the entries, which
-- keeps them in order even if the clock is set back, and the clock is read only for a known id.

-- Fact: at 500 events/s, a call has one event and runs with cold caches: to make a number into text takes 8 µs of 165.
-- Choice: no such text, and no table for one new event without notes. Effect: 162.7 to 156.0 µs, in alternating runs.
if count == 1 and not isAhead then
  local field, digests, producer, notes = struct.unpack(FIELD .. EVENT, events)
  local isSimple = notes == ''
  for start in string.gmatch(starts, '%d+') do isSimple = isSimple and not call('HGET', ids .. ':' .. start, field) end
  if isSimple then
    local entry = call('XADD', stream, '*', 'producer', producer, 'body', ARGV[3])
    record(entry, field, digests .. sub(entry, PREFIX + 1))
    return '0'
  end
end

local fields = { struct.unpack(string.rep(FIELD, count), events) }
local place = fields[count + 1]

-- Fact: a `redis.call` costs more than the command that it runs. Choice: each call uses one HMGET per slice and one
-- HSET. Effect: in calls of 8, an event takes 0.57 of the CPU time of an HSETNX into a small hash per id on a queue
-- of 10,000 events, and 0.4 of it on 1,000,000.
local known = nil
for start in string.gmatch(starts, '%d+') do
  local values = call('HMGET', ids .. ':' .. start, unpack(fields, 1, count))
  for at = 1, count do
    local value = values[at]
    if value then
      known = known or {}
      known[at] = known[at] or { start, value }
    end
  end
end

-- If the stream was deleted by hand, its index is deleted too.
if known and call('EXISTS', stream) == 0 then
  for start in string.gmatch(starts, '%d+') do call('UNLINK', ids .. ':' .. start) end
  known, starts, newest, isAhead = nil, '', nil, nil
end
local keeps = known and retained(stream, retention)

-- Events are written before ids. If an error occurred in between, an event could be stored twice, which the warehouse
-- detects. In the other order, an event could be lost.
--
-- Fact: in a large hash, a field of up to 14 bytes takes 16 bytes, a value of up to 30 takes 32, and their entry
-- takes 32. Choice: fields of at most 14 bytes, and values of 28: two digests, and the entry's name without its first
-- 3 digits, which are in the slice's start. Effect: deploy/RUNBOOK.md, Sizing.
--
-- An id is known if an earlier event of this call has it (`firsts`), or if the index has it (`mark`: the slice's start
-- and the value).
local time = isAhead and call('TIME')
local now = time and string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
local firsts, noted, size, first = {}, {}, 0, nil
local refused = nil
for at = 1, count do
  local digests, producer, notes
  digests, producer, notes, place = struct.unpack(EVENT, events, place)
  local field = fields[at]
  local mark = known and known[at]
  local value = firsts[field] or mark and keeps(entry_name(mark[1], mark[2])) and mark[2]
  if value then
    refused = refused or {}
    if sub(value, 1, DIGEST) ~= sub(digests, 1, DIGEST) then refused[at] = '2'
    else refused[at] = sub(value, 1, 2 * DIGEST) == digests and '1' or '3' end
  else
    local body, entry = ARGV[at + 2], nil
    if notes == '' and not now then
      entry = call('XADD', stream, '*', 'producer', producer, 'body', body)
    else
      local members = { 'producer', producer, 'body', body }
      if now then members[5], members[6] = 'clock', now end
      for line in string.gmatch(notes, '([^\n]*)\n') do members[#members + 1] = line end
      entry = call('XADD', stream, '*', unpack(members))
    end
    first = first or entry
    firsts[field] = digests
    noted[size + 1], noted[size + 2] = field, digests .. sub(entry, PREFIX + 1)
    size = size + 2
  end
end

if first then record(first, unpack(noted)) end
if not refused then return string.rep('0', count) end
for at = 1, count do refused[at] = refused[at] or '0' end
return table.concat(refused)
