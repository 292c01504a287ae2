-- Counts the entries after `from`, up to `last`, until a limit of entries or of bytes. Returns the number, the name of
-- the last one that was counted, and true if none is left.
local COUNTED_AT_ONCE = 16
local function count_entries(stream, from, last, max, bytes)
  local count = 0
  while from ~= last and count < max and bytes > 0 do
    local page = redis.call('XRANGE', stream, '(' .. from, last, 'COUNT', COUNTED_AT_ONCE)
    for _, entry in ipairs(page) do
      for at = 2, #entry[2], 2 do bytes = bytes - #entry[2][at] end
    end
    count = count + #page
    if #page < COUNTED_AT_ONCE then return count, last, true end
    from = page[#page][1]
  end
  return count, from, from == last
end
