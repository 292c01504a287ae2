#!lua flags=no-writes
-- Looks one event up by id. The index is described in accept.lua.
--
-- KEYS[1]  the stream
-- ARGV     retention in milliseconds, producer, and the fields that the id can have
-- Reply    for each field, by turns, whose entry is this producer's: time of acceptance (Unix milliseconds), body,
--          traceparent, the body's encoding, the event's id by its note, and its digests, each '' where there is none
local stream = KEYS[1]
local ids = '{' .. stream .. '}:ids'
local keeps = retained(stream, ARGV[1])
local reply = {}

local function look(start, value)
  local entry, digests = entry_name(start, value)
  local ms = string.match(entry, '^%d+')
  local found = keeps(tonumber(ms)) and redis.call('XRANGE', stream, entry, entry)[1]
  if not found then return end
  local members = { acceptedAt = ms, traceparent = '', encoding = '', id = '' }
  for name = 1, #found[2], 2 do members[found[2][name]] = found[2][name + 1] end
  if members.producer ~= ARGV[2] or not members.body then return end
  for _, name in ipairs({ 'acceptedAt', 'body', 'traceparent', 'encoding', 'id' }) do
    reply[#reply + 1] = members[name]
  end
  reply[#reply + 1] = digests
end

local starts = redis.call('GET', ids) or ''
for at = 3, #ARGV do
  for start in string.gmatch(starts, '%d+') do
    local value = redis.call('HGET', ids .. ':' .. start, ARGV[at])
    if value then
      look(start, value)
      break
    end
  end
end
return reply
