#!lua flags=no-writes
-- Returns the entries that can be found without reading the stream: those that quarantine rows name, the replays of
-- these rows, and the last replay of an event.
--
-- KEYS[1]  the stream
-- ARGV     the prefix of the stream's own row names (`<queue id>/<stream>/`), the event's id, and the rows
local stream, own, id = KEYS[1], ARGV[1], ARGV[2]
local replays = '{' .. stream .. '}:replays'
local entries, known = {}, {}
local function add(found)
  -- A digest of the event follows `~` (warehouse.ts).
  local name = string.match(found or '', '^(%d+%-%d+)~?%x*$')
  if not name or known[name] then return end
  known[name] = true
  entries[#entries + 1] = redis.call('XRANGE', stream, name, name)[1]
end
add(redis.call('HGET', replays, '\n' .. id))
for at = 3, #ARGV do
  if string.sub(ARGV[at], 1, #own) == own then add(string.sub(ARGV[at], #own + 1)) end
  add(redis.call('HGET', replays, ARGV[at]))
end
return entries
