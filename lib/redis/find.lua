#!lua flags=no-writes
-- Looks one event up by id. The index is described in accept.lua.
--
-- KEYS[1]  the stream
-- ARGV     retention in milliseconds, index field, bucket hash, producer
-- Reply    entry id and body; nothing when the id is unknown or another producer's
local stream = KEYS[1]
local prefix = '{' .. stream .. '}:'
local time = redis.call('TIME')
local oldest = time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(ARGV[1])
local hash = tonumber(ARGV[3])

local stored = redis.call('GET', prefix .. 'levels') or '8,0' -- accept.lua's BITS_FIRST: it stores levels once they change
for bits in string.gmatch(';' .. stored, ';(%d+),') do
  local entry = redis.call('HGET', prefix .. bits .. ':' .. hash % 2 ^ tonumber(bits), ARGV[2])
  if entry and tonumber(string.match(entry, '^%d+')) > oldest then
    local found = redis.call('XRANGE', stream, entry, entry)[1]
    if not found then return false end
    local producer, body
    for name = 1, #found[2], 2 do
      if found[2][name] == 'producer' then producer = found[2][name + 1] end
      if found[2][name] == 'body' then body = found[2][name + 1] end
    end
    if producer ~= ARGV[4] or not body then return false end
    return { entry, body }
  end
end
return false
