#!lua flags=no-writes
-- Looks one event up by id. The index is described in accept.lua.
--
-- KEYS[1]  the stream
-- ARGV     retention in milliseconds, index field, producer
-- Reply    time of acceptance (Unix milliseconds), body, traceparent ('' where there is none), and the body's encoding
--          where it has one; nothing when the id is unknown or another producer's
local stream = KEYS[1]
local ids = '{' .. stream .. '}:ids'
local time = redis.call('TIME')
local oldest = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1]

for start in string.gmatch(redis.call('GET', ids) or '', '%d+') do
  local value = redis.call('HGET', ids .. ':' .. start, ARGV[2])
  if value then
    local entry = entry_name(start, value)
    if tonumber(string.match(entry, '^%d+')) <= oldest then return false end
    local found = redis.call('XRANGE', stream, entry, entry)[1]
    if not found then return false end
    local producer, body, encoding
    local traceparent = ''
    local accepted = string.match(entry, '^%d+')
    for name = 1, #found[2], 2 do
      if found[2][name] == 'producer' then producer = found[2][name + 1] end
      if found[2][name] == 'body' then body = found[2][name + 1] end
      if found[2][name] == 'acceptedAt' then accepted = found[2][name + 1] end
      if found[2][name] == 'encoding' then encoding = found[2][name + 1] end
      if found[2][name] == 'traceparent' then traceparent = found[2][name + 1] end
    end
    if producer ~= ARGV[3] or not body then return false end
    return { accepted, body, traceparent, encoding }
  end
end
return false
