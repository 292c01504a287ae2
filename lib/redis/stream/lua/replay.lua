#!lua
-- Appends quarantined entries to the stream in one atomic step, bypassing the id index.
--
-- KEYS[1]  the stream
-- ARGV     the group; '1' to append an entry again if its last replay was acknowledged; and for each entry the name
--          of its quarantine row, the producer, the body, the time of first acceptance (Unix milliseconds), the
--          further members (alternating names and values, each followed by a line feed), and its id or ''
-- Reply    for each entry its name, and 1 if this call appended it
--
-- `{stream}:replays` is a hash of entry names. A row's field names the row's last replay, the field of a line feed
-- and an id names the id's last replay, and the field of a line feed alone names the last replay of all. trim.lua
-- deletes the hash when that one has landed. A replay that has not landed is not appended again, so an interrupted
-- command can be repeated. If a replay was acknowledged, the caller first checks that its row still exists. If a
-- field is lost, a second entry is appended, which the warehouse recognizes by its id.
local stream, group = KEYS[1], ARGV[1]
local replays = '{' .. stream .. '}:replays'
local entries = {}
for at = 3, #ARGV, 6 do
  local row = ARGV[at]
  local entry = redis.call('HGET', replays, row)
  local state = entry and entry_state(stream, group, entry)
  local put = not state or state == 'gone' or state == 'done' and ARGV[2] == '1'
  if put then
    local members = { 'producer', ARGV[at + 1], 'body', ARGV[at + 2], 'acceptedAt', ARGV[at + 3], 'replayOf', row }
    for line in string.gmatch(ARGV[at + 4], '([^\n]*)\n') do members[#members + 1] = line end
    entry = redis.call('XADD', stream, '*', unpack(members))
    redis.call('HSET', replays, row, entry, '\n', entry)
    if ARGV[at + 5] ~= '' then redis.call('HSET', replays, '\n' .. ARGV[at + 5], entry) end
  end
  entries[#entries + 1] = entry
  entries[#entries + 1] = put and 1 or 0
end
return entries
