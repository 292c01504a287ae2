#!lua flags=no-writes
-- Finds an event by its id. accept.lua describes the index.
--
-- KEYS[1]  the stream
-- ARGV     retention in milliseconds, the producer, and the id's field
-- Reply    the time of acceptance (Unix milliseconds), the body, and the traceparent or ''; nothing if the queue does
--          not have this producer's event
local stream = KEYS[1]
local ids = '{' .. stream .. '}:ids'
for start in string.gmatch(redis.call('GET', ids) or '', '%d+') do
  local value = redis.call('HGET', ids .. ':' .. start, ARGV[3])
  if value then
    local entry = entry_name(start, value)
    local ms = string.match(entry, '^%d+')
    local found = retained(stream, ARGV[1])(entry) and redis.call('XRANGE', stream, entry, entry)[1]
    if not found then return {} end
    local members = { acceptedAt = ms, traceparent = '' }
    for name = 1, #found[2], 2 do members[found[2][name]] = found[2][name + 1] end
    if members.producer ~= ARGV[2] or not members.body then return {} end
    return { members.acceptedAt, members.body, members.traceparent }
  end
end
return {}
