#!lua flags=allow-oom
-- Notes which events a member of the group is about to land; leave.lua removes the notes with their member.
--
-- KEYS[1]  the stream
-- ARGV     the member's name, the number of the note, its text (landing-notes.ts)
return redis.call('SET', '{' .. KEYS[1] .. '}:landing:' .. ARGV[1] .. ':' .. ARGV[2], ARGV[3])
