#!lua flags=allow-oom
-- Replaces an entry with one that has another body, in one atomic step. Entries cannot be changed, so the new one is
-- appended to the stream. The group reads it again, and lands it if the old one had not landed.
--
-- KEYS[1]  the stream
-- ARGV     the group, the entry, the new body, the lease of a replica in milliseconds, the quarantine name of the old
--          entry, the id's field in the id index, and an entry of which is known that its block is complete
-- Reply    'erased' and the name of the new entry; 'gone' if the entry does not exist; 'held' if a live member holds
--          it: nothing was changed, because that member would land the old body. With 'erased', also 1 if the block
--          of the old entry is complete.
--
-- Fact: Redis only marks a deleted entry, and its bytes stay until all entries of its block have been removed. Choice:
-- a filler that does not fit into the last block, and that is deleted in the same step, separates the old entry from
-- all later ones. Effect: the bytes go when the entries that exist now have been trimmed.
--
-- An entry of a dead member is acknowledged. The new entry keeps the other members, the time of acceptance and the
-- quarantine name, so it creates no second row. The id index and the note of a replay are changed to name it.
local stream, group, entry, body, lease = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
-- The digest of an erased body. No body has it, so a retry is a duplicate with a different body.
local FILLER = string.rep(' ', 65536)
local NO_BODY = string.rep('.', DIGEST)
local tag = '{' .. stream .. '}:'
local call = redis.call

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = call('XRANGE', stream, entry, entry)[1]
if not found then return { 'gone' } end
local state, holder = entry_state(stream, group, entry)
if state == 'held' then
  local heartbeat = call('ZSCORE', tag .. 'replicas', holder)
  if heartbeat and now - tonumber(heartbeat) <= lease then return { 'held' } end
  call('XACK', stream, group, entry)
end

local named = tonumber(string.match(entry, '^%d+'))
local members, accepted, row = {}, string.format('%d', math.min(now, named)), nil
for at = 1, #found[2], 2 do
  local name, value = found[2][at], found[2][at + 1]
  if name == 'acceptedAt' then accepted = value
  elseif name == 'replayOf' then row = value
  elseif name == 'clock' then accepted = named > now and value or accepted
  elseif name ~= 'body' then
    members[#members + 1] = name
    members[#members + 1] = value
  end
end
local function about() return fields(call('XINFO', 'STREAM', stream)) end
local is_complete = not before(ARGV[7], entry)
local was = not is_complete and about()
local filler = was and call('XADD', stream, '*', 'filler', FILLER)
local new = call('XADD', stream, '*', 'body', body, 'acceptedAt', accepted, 'replayOf', row or ARGV[5], unpack(members))

if filler then
  is_complete = about()['radix-tree-keys'] == was['radix-tree-keys'] + 2
  call('XDEL', stream, filler)
  -- Otherwise the group's lag would include the filler.
  local counts = { 'ENTRIESADDED', was['entries-added'] + 1, 'MAXDELETEDID', was['max-deleted-entry-id'] }
  call('XSETID', stream, new, unpack(counts))
end

local starts = call('GET', tag .. 'ids') or ''
local newest = string.match(starts, '^%d+')
for start in string.gmatch(starts, '%d+') do
  local slice = tag .. 'ids:' .. start
  local value = call('HGET', slice, ARGV[6])
  if value and entry_name(start, value) == entry then
    call('HDEL', slice, ARGV[6])
    local erased = string.sub(value, 1, DIGEST) .. NO_BODY .. string.sub(new, PREFIX + 1)
    call('HSET', tag .. 'ids:' .. newest, ARGV[6], erased)
  end
end
if row and call('HEXISTS', tag .. 'replays', row) == 1 then call('HSET', tag .. 'replays', row, new, '\n', new) end

call('XDEL', stream, entry)
return { 'erased', new, is_complete and 1 or 0 }
