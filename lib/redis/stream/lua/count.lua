#!lua flags=allow-oom
-- Corrects Redis' counter of the entries that a group has read, from which it computes "lag": see group-place.lua. Each
-- call counts a page of the unread entries, and continues the count of the call before, whoever made that.
--
-- KEYS[1]  the stream
-- ARGV     the group, the maximum numbers of entries and of bytes, and the least time between two calls that count, in
--          milliseconds, which bounds the work of several consumers
-- Reply    1 if there are more, or 0
--
-- The count begins after the last entry that the group has read, and ends at the last one of the stream. The
-- difference to Redis' counter is then known, and it stays the same while the group reads and the stream grows.
local stream, group = KEYS[1], ARGV[1]
local looked = '{' .. stream .. '}:looked'
local found = group_fields(stream, group)
local about = redis.pcall('XINFO', 'STREAM', stream)
if about.err or not found then return 0 end
about = fields(about)
local state = counter_state(about)
if not state then return 0 end
local place, read = found['last-delivered-id'], tonumber(found['entries-read'])
local seen = redis.call('HMGET', looked, 'counter', 'count')
local is_invalid = not tonumber(found.lag) or not read
if seen[1] == state and not is_invalid then return 0 end
-- Redis gives up its counter with the next read while a deleted entry is ahead.
if before(place, about['max-deleted-entry-id']) then return 0 end

local first, added = about['recorded-first-entry-id'], about['entries-added']
local function correct(entries_read)
  redis.call('XGROUP', 'SETID', stream, group, place, 'ENTRIESREAD', math.max(0, entries_read))
  redis.call('HSET', looked, 'counter', state, 'count', '')
  return 0
end
-- All entries of the stream are unread.
if before(place, first) then return correct(added - about.length) end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local FORM = '^(%x+ %S+) (%S+) (%d+) (%d+) (%d+) (%S+) (%d+)$'
local of, last, added_then, since, counted, from, at = string.match(seen[2] or '', FORM)
if of == state and math.abs(now - at) < tonumber(ARGV[4]) then return 1 end
-- Without Redis' counter, or if entries ahead of the count were trimmed, it begins again.
if of ~= state or not read or before(from, first) then
  if not read then redis.call('XGROUP', 'SETID', stream, group, place, 'ENTRIESREAD', 0) end
  read = read or 0
  last, added_then, since, counted, from = about['last-generated-id'], added, read, 0, place
end
local count, reached, is_all = count_entries(stream, from, last, tonumber(ARGV[2]), tonumber(ARGV[3]))
counted = counted + count
if not is_all then
  local count = { state, last, added_then, since, counted, reached, string.format('%d', now) }
  redis.call('HSET', looked, 'count', table.concat(count, ' '))
  return 1
end
return correct(added_then - counted + read - since)
