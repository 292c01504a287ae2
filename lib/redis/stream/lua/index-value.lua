-- A value of the id index: the digests of producer and body, DIGEST characters each, and the entry's name without its
-- first PREFIX digits, which its slice's start has.
local DIGEST, PREFIX = 8, 3

local function entry_name(start, value)
  local name = string.sub(value, 2 * DIGEST + 1)
  local prefix = string.sub(start, 1, PREFIX)
  local entry = prefix .. name
  -- Less than 10 ^ 10 ms lie between a slice's start and its entries, so the prefix grows by one at most.
  if string.match(entry, '^%d+') - start < 0 then entry = prefix + 1 .. name end
  return entry
end
