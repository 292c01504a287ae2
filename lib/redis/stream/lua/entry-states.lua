#!lua flags=no-writes
-- Returns the state of each entry: see entry-state.lua.
--
-- KEYS[1]  the stream
-- ARGV     the group and the entries
local states = {}
for at = 2, #ARGV do states[at - 1] = entry_state(KEYS[1], ARGV[1], ARGV[at]) end
return states
