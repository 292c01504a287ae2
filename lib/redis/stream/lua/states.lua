#!lua flags=no-writes
-- The states of some entries: see entry-state.lua.
--
-- KEYS[1]  the stream
-- ARGV     the group, and the entries
-- Reply    a state for each entry
local states = {}
for at = 2, #ARGV do states[at - 1] = entry_state(KEYS[1], ARGV[1], ARGV[at]) end
return states
