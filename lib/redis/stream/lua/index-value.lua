-- A value of the id index: the digests of the producer and the body, DIGEST characters each, and the entry's name
-- without its first PREFIX digits, which are in the slice's start.
local DIGEST, PREFIX = 8, 3

local function entry_name(start, value)
  local name = string.sub(value, 2 * DIGEST + 1)
  local prefix = string.sub(start, 1, PREFIX)
  local entry = prefix .. name
  -- A slice's start and its entries are less than 10 ^ 10 ms apart, so the prefix grows by at most one.
  if string.match(entry, '^%d+') - start < 0 then entry = prefix + 1 .. name end
  return entry
end
