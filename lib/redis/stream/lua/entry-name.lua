-- The name of an entry in the id index, and the digests of its event where it has some. The value is the name's digits
-- without the first PREFIX ones, which are those of its slice's start, and behind a blank the digests.
local PREFIX = 3
local function entry_name(start, value)
  local name, digests = string.match(value, '^(%S+) ?(.*)$')
  local prefix = string.sub(start, 1, PREFIX)
  local entry = prefix .. name
  -- Less than 10 ^ 10 ms lie between a slice's start and its entries, so the prefix has grown by one at most.
  if string.match(entry, '^%d+') - start < 0 then entry = prefix + 1 .. name end
  return entry, digests
end
