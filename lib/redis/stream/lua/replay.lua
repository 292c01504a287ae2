#!lua
-- Puts quarantined entries back on the stream, past the id index, in one atomic step.
--
-- KEYS[1]  the stream
-- ARGV     the group, the milliseconds that a note is kept, '1' to put one back again whose last replay was
--          acknowledged, and for each entry: the name of its quarantine row, producer, body, the time of the first
--          acceptance (Unix milliseconds), and the entry's further members, names and values by turns, each ended by a
--          line feed; and its id, or nothing
-- Reply    for each its entry, and 1 where this call put it there, by turns
--
-- `{stream}:replays` notes the entry of each row, and behind a line feed the last one of each id, for erasing. One that
-- has not landed yet is not put there again, so that a replay that was interrupted can be run again; of one that was
-- acknowledged the caller looks first whether its row is still there. A note that got lost costs a second entry, which
-- the warehouse recognises by its id.
local stream, group = KEYS[1], ARGV[1]
local replays = '{' .. stream .. '}:replays'
local entries = {}
for at = 4, #ARGV, 6 do
  local row = ARGV[at]
  local entry = redis.call('HGET', replays, row)
  local state = entry and entry_state(stream, group, entry)
  local put = not state or state == 'gone' or state == 'done' and ARGV[3] == '1'
  if put then
    local members = { 'producer', ARGV[at + 1], 'body', ARGV[at + 2], 'acceptedAt', ARGV[at + 3], 'replayOf', row }
    for line in string.gmatch(ARGV[at + 4], '([^\n]*)\n') do members[#members + 1] = line end
    entry = redis.call('XADD', stream, '*', unpack(members))
    redis.call('HSET', replays, row, entry)
    if ARGV[at + 5] ~= '' then redis.call('HSET', replays, '\n' .. ARGV[at + 5], entry) end
  end
  entries[#entries + 1] = entry
  entries[#entries + 1] = put and 1 or 0
end
redis.call('PEXPIRE', replays, ARGV[2])
return entries
