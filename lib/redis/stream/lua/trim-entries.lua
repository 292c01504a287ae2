-- Removes entries from before `past` and before `unlanded`, about `limit` of them. Returns the number of removed
-- entries, and true if there are more. After the server's clock was set back, `time_of` returns the time of an entry.
local EXAMINED_MAX = 100
local function trim_entries(stream, past, unlanded, limit, time_of)
  local call, bound = redis.call, earlier(past, unlanded)
  local dropped = call('XTRIM', stream, 'MINID', '~', bound, 'LIMIT', limit)
  -- `~` removes only whole nodes, up to the limit. The rest, less than a node, is removed exactly.
  if dropped >= limit / 2 then return dropped, true end
  dropped = dropped + call('XTRIM', stream, 'MINID', '=', bound)
  if not time_of then return dropped, false end

  local page, kept = call('XRANGE', stream, '-', '+', 'COUNT', EXAMINED_MAX), 1
  while page[kept] and time_of(page[kept]) < tonumber(past) and (not unlanded or before(page[kept][1], unlanded)) do
    kept = kept + 1
  end
  if kept == 1 then return dropped, false end
  local first = page[kept] or call('XRANGE', stream, '(' .. page[#page][1], '+', 'COUNT', 1)[1]
  local how, where = first and 'MINID' or 'MAXLEN', first and first[1] or 0
  return dropped + call('XTRIM', stream, how, '=', where), kept > EXAMINED_MAX
end
