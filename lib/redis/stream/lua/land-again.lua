#!lua flags=allow-oom
-- Makes acknowledged entries pending again, for a member that does not exist, so that a consumer claims and lands
-- them. Entries that are unread or pending do not change.
--
-- KEYS[1]  the stream
-- ARGV     the group, the member, how long the entries shall have been idle, in milliseconds, and the entries
-- Reply    the state of each entry after that: see entry-state.lua
local stream, group = KEYS[1], ARGV[1]
local states = {}
for at = 4, #ARGV do
  local state = entry_state(stream, group, ARGV[at])
  if state == 'done' then
    redis.call('XCLAIM', stream, group, ARGV[2], 0, ARGV[at], 'IDLE', ARGV[3], 'FORCE', 'JUSTID')
    state = 'held'
  end
  states[#states + 1] = state
end
return states
