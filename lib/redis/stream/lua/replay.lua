#!lua
-- Appends a quarantined entry to the stream in one atomic step, bypassing the id index.
--
-- KEYS[1]  the stream
-- ARGV     the group; '1' to append the entry again if its last replay was acknowledged; the name of the quarantine
--          row, the producer, the body, the time of first acceptance (Unix milliseconds), the further members
--          (alternating names and values, each followed by a line feed), and the id or ''
-- Reply    the name of the entry, and 1 if this call appended it
--
-- `{stream}:replays` is a hash of entry names. A row's field names the row's last replay, the field of a line feed
-- and an id names the id's last replay, and the field of a line feed alone names the last replay of all. trim.lua
-- deletes the hash when that one has landed. A replay that has not landed is not appended again, so an interrupted
-- command can be repeated. If a replay was acknowledged, the caller first checks that its row still exists. If a
-- field is lost, a second entry is appended, which the warehouse recognizes by its id.
local stream, group, row = KEYS[1], ARGV[1], ARGV[3]
local replays = '{' .. stream .. '}:replays'
local entry = redis.call('HGET', replays, row)
local state = entry and entry_state(stream, group, entry)
if state and state ~= 'gone' and (state ~= 'done' or ARGV[2] ~= '1') then return { entry, 0 } end
local members = { 'producer', ARGV[4], 'body', ARGV[5], 'acceptedAt', ARGV[6], 'replayOf', row }
for line in string.gmatch(ARGV[7], '([^\n]*)\n') do members[#members + 1] = line end
entry = redis.call('XADD', stream, '*', unpack(members))
redis.call('HSET', replays, row, entry, '\n', entry)
if ARGV[8] ~= '' then redis.call('HSET', replays, '\n' .. ARGV[8], entry) end
return { entry, 1 }
