#!lua flags=allow-oom
-- Makes the consumer group, from the beginning of the stream, where it is missing; also while the server is full.
--
-- KEYS[1]  the stream
-- ARGV     the group
-- Reply    1 when it was made, 0 when it was there
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], '0', 'MKSTREAM')
if not made.err then return 1 end
if string.match(made.err, '^BUSYGROUP') then return 0 end
return made
