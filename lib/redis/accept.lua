#!lua
-- Accepts a batch of events in one atomic step: each is noted in the id index and appended to the stream, or
-- neither. One Redis server runs one script at a time, so two producers of one id are decided here.
--
-- KEYS[1]  the stream
-- ARGV[1]  retention in milliseconds; alone it makes the call a probe: it writes nothing, but the server refuses it
--          as it would refuse a write (full, read-only, loading, cannot persist)
-- then, for each of at most 1,000 events: index field, bucket hash (32 bits, decimal), producer, body
-- Reply    a string with one digit for each event: 0 accepted, 1 duplicate, 2 conflict
--
-- The id index. A key of its own for each id takes 165 to 200 bytes, half of what a small event takes itself. Instead
-- ids live in small hashes ("buckets"), which Redis keeps as one compact list up to 128 fields: about 65 bytes for
-- each id. A level has 2^bits buckets, and an id's bucket is its hash modulo that. When the stream outgrows the
-- level, one with 8 times the buckets becomes current; the old one is still read until its youngest id is past
-- retention. A field's value is the stream entry's id, which begins with the time of acceptance, and a value
-- past retention counts as absent: the index lives exactly as long as the event.
--
-- `{stream}:levels` says "<bits>,<cursor>" for the current level, then ";<bits>,<cursor>,<last used, ms>" for each old one.
-- The cursors walk over the buckets a few at a time, as part of accepting: in the current level they drop what is past
-- retention, in the old ones they let each bucket expire. A time to live renewed at every insert would do the same
-- and cost 2.7 of 8.2 microseconds for each event.
if #ARGV == 1 then return '' end

local BITS_FIRST, BITS_STEP, BITS_LAST, FIELDS_AIMED = 8, 3, 23, 64
local EVENTS_A_SWEEP, BUCKETS_A_STEP = 32, 16

local stream = KEYS[1]
local prefix = '{' .. stream .. '}:'
local retention = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local oldest = now - retention

local function fresh(entry)
  return entry and tonumber(string.match(entry, '^%d+')) > oldest
end

-- The levels, current first.
local levels = {}
local stored = redis.call('GET', prefix .. 'levels') or (BITS_FIRST .. ',0')
for bits, cursor, used in string.gmatch(stored, '(%d+),(%d+),?(%d*)') do
  local size = 2 ^ tonumber(bits)
  levels[#levels + 1] =
    { bits = bits, name = prefix .. bits .. ':', size = size, cursor = tonumber(cursor), used = tonumber(used) }
end
local current = levels[1]

local function store_levels()
  local text = current.bits .. ',' .. current.cursor
  for at = 2, #levels do
    text = text .. ';' .. levels[at].bits .. ',' .. levels[at].cursor .. ',' .. levels[at].used
  end
  redis.call('SET', prefix .. 'levels', text)
end

local function sweep_current()
  local bucket = current.name .. current.cursor
  current.cursor = (current.cursor + 1) % current.size
  local all = redis.call('HGETALL', bucket)
  for at = 1, #all, 2 do
    if not fresh(all[at + 1]) then redis.call('HDEL', bucket, all[at]) end
  end
end

local function retire_old()
  for at = #levels, 2, -1 do
    local level = levels[at]
    local stop = math.min(level.cursor + BUCKETS_A_STEP, level.size)
    while level.cursor < stop do
      redis.call('PEXPIRE', level.name .. level.cursor, retention)
      level.cursor = level.cursor + 1
    end
    if level.cursor == level.size and level.used <= oldest then table.remove(levels, at) end
  end
end

if tonumber(current.bits) < BITS_LAST and redis.call('XLEN', stream) > FIELDS_AIMED * current.size then
  current.cursor, current.used = 0, now
  local bits = string.format('%d', tonumber(current.bits) + BITS_STEP)
  current = { bits = bits, name = prefix .. bits .. ':', size = 2 ^ tonumber(bits), cursor = 0 }
  table.insert(levels, 1, current)
  store_levels()
end

-- Gives '1' or '2' for an entry that stands on the stream, and nothing for one that does not: a 202 says that the
-- queue has the event, so an id whose entry was deleted or cut by hand is not known any more.
local function owner_verdict(entry, producer)
  local found = redis.call('XRANGE', stream, entry, entry)[1]
  if not found then return nil end
  local members = found[2]
  for at = 1, #members, 2 do
    if members[at] == 'producer' and members[at + 1] == producer then return '1' end
  end
  return '2'
end

-- Entry ids are made here and not by XADD, so that the index can note one before the entry exists and needs a single
-- call for both "is it known" and "note it". The microsecond keeps them ascending from call to call; where it does
-- not (the clock went back), XADD refuses and chooses by itself.
local micros = time[2] % 1000 * 1000
local stamp = string.format('%.0f-', now)
local trimmed = false

local function append(entry, producer, body)
  local added
  if trimmed then
    added = redis.pcall('XADD', stream, entry, 'producer', producer, 'body', body)
  else
    added = redis.pcall('XADD', stream, 'MINID', '~', oldest, entry, 'producer', producer, 'body', body)
    trimmed = true
  end
  if type(added) == 'table' then return redis.call('XADD', stream, '*', 'producer', producer, 'body', body) end
  return added
end

local verdicts = {}
for at = 2, #ARGV, 4 do
  local field, hash, producer = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local verdict = nil
  for level = 2, #levels do
    local known = redis.call('HGET', levels[level].name .. hash % levels[level].size, field)
    if fresh(known) then verdict = verdict or owner_verdict(known, producer) end
  end

  if not verdict then
    local bucket = current.name .. hash % current.size
    local entry = stamp .. (micros + #verdicts)
    if redis.call('HSETNX', bucket, field, entry) == 0 then
      local known = redis.call('HGET', bucket, field)
      if fresh(known) then verdict = owner_verdict(known, producer) end
      if not verdict then redis.call('HSET', bucket, field, entry) end
    end
    if not verdict then
      local added = append(entry, producer, ARGV[at + 3])
      if added ~= entry then redis.call('HSET', bucket, field, added) end
      verdict = '0'
    end
  end
  verdicts[#verdicts + 1] = verdict
end

-- One bucket for every EVENTS_A_SWEEP events, however many a call carries: the rest of the division by chance.
local sweeps = math.floor(#verdicts / EVENTS_A_SWEEP)
if time[2] % EVENTS_A_SWEEP < #verdicts % EVENTS_A_SWEEP then sweeps = sweeps + 1 end
if sweeps > 0 then
  for _ = 1, sweeps do sweep_current() end
  retire_old()
  store_levels()
end
return table.concat(verdicts)
