-- The name of an entry in the id index: its digits without the first PREFIX ones, which are those of its slice's start.
local PREFIX = 3
local function entry_name(start, value)
  local prefix = string.sub(start, 1, PREFIX)
  local entry = prefix .. value
  -- Less than 10 ^ 10 ms lie between a slice's start and its entries, so the prefix has grown by one at most.
  if string.match(entry, '^%d+') - start < 0 then entry = prefix + 1 .. value end
  return entry
end
