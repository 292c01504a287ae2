#!lua flags=no-writes
-- Returns the length of a stream, or 0 if the user may not read it, because the server logs refusals.
--
-- ARGV     the stream, which is not one of this queue
return redis.acl_check_cmd and redis.acl_check_cmd('XLEN', ARGV[1]) and redis.call('XLEN', ARGV[1]) or 0
