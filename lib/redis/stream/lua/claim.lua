#!lua flags=allow-oom
-- Claims entries that other members received long ago and never acknowledged, oldest first.
--
-- KEYS[1]  the stream
-- ARGV     the group, this member's name, the idle time in milliseconds, the first entry to check, the maximum number
--          of entries, the number of bytes after which it stops, and the lease of a replica in milliseconds
-- Reply    the entry at which the next call starts ('0-0' at the end of the list), the claimed entries, and the names
--          of this member's own entries that have been idle as long
--
-- A reply exceeds the limit of bytes by at most one body. An entry that was deleted by hand stays on the list until
-- trim.lua removes it and reports it. XAUTOCLAIM would remove it without a trace.
--
-- After the server's clock has been set back, the idle time of earlier entries is negative. XPENDING shows it as 0, but
-- its filter `IDLE -1` excludes those entries. They are claimed when their holder sends no heartbeat.
local stream, group, me = KEYS[1], ARGV[1], ARGV[2]
local idle, cursor, max = tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local bytes, lease = tonumber(ARGV[6]), tonumber(ARGV[7])
local LOOKED_AT_MAX = 1000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local alive = {}
local function lives(member)
  if alive[member] == nil then
    local heartbeat = redis.call('ZSCORE', '{' .. stream .. '}:replicas', member)
    alive[member] = heartbeat and math.abs(now - tonumber(heartbeat)) <= lease or false
  end
  return alive[member]
end

local function taken_in_the_future(entry)
  return #redis.call('XPENDING', stream, group, 'IDLE', -1, entry, entry, 1) == 0
end

local taken, own, size = {}, {}, 0
local list = redis.pcall('XPENDING', stream, group, cursor, '+', LOOKED_AT_MAX)
if list.err then return list end
for _, pending in ipairs(list) do
  local entry, holder, idle_for = pending[1], pending[2], pending[3]
  if #taken >= max or size >= bytes then return { entry, taken, own } end
  local stale = idle_for >= idle or idle_for == 0 and not lives(holder) and taken_in_the_future(entry)
  if stale and holder == me then
    own[#own + 1] = entry
  elseif stale then
    local found = redis.call('XRANGE', stream, entry, entry)[1]
    if found then
      redis.call('XCLAIM', stream, group, me, 0, entry, 'JUSTID')
      taken[#taken + 1] = found
      for at = 2, #found[2], 2 do size = size + #found[2][at] end
    end
  end
end
if #list < LOOKED_AT_MAX then return { '0-0', taken, own } end
return { '(' .. list[#list][1], taken, own }
