-- A value of the id index: digests of the event's producer and of its body, DIGEST characters each, and the entry's
-- name without the first PREFIX digits, which are those of its slice's start.
local DIGEST, PREFIX = 8, 3

local function entry_name(start, value)
  local name = string.sub(value, 2 * DIGEST + 1)
  local prefix = string.sub(start, 1, PREFIX)
  local entry = prefix .. name
  -- Less than 10 ^ 10 ms lie between a slice's start and its entries, so the prefix has grown by one at most.
  if string.match(entry, '^%d+') - start < 0 then entry = prefix + 1 .. name end
  return entry
end
