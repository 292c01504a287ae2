-- Removes slices of the id index (accept.lua) whose youngest id is past retention and older than every unlanded entry.
-- A slice ends where the next one begins; the newest one ends with the stream, at the entry `last`.
--
-- `since` is the time at which names were found to be later than the clock, or nil. Until the clock has caught up, a
-- slice begins every third of retention here, and `seen` has the times at which slices ended (`ended`) and the newest
-- one began (`turned`). Returns the new values of both.
local function trim_ids(ids, retention, past, now, last, is_over, oldest, since, seen)
  local call, starts = redis.call, redis.call('GET', ids)
  if not starts then return seen.turned or '', '' end
  local kept, over, ended, ends, ends_at = {}, {}, {}, last, {}
  for start, at in string.gmatch(since and seen.ended or '', '(%d+):(%d+)') do ends_at[start] = tonumber(at) end
  local turned = since and math.max(since, math.min(now, tonumber(seen.turned) or since)) or ''
  local newest = string.match(starts, '^%d+')
  if newest and since and now - turned >= retention / 3 then
    -- A slice's start must not be later than its entries.
    starts, turned = string.format('%d', newest - 1) .. ' ' .. starts, now
  end
  for start in string.gmatch(starts, '%d+') do
    local at = since and ends ~= last and (ends_at[start] or now)
    if at then ended[#ended + 1] = start .. ':' .. string.format('%d', at) end
    local is_past = is_over(ends) or at and at < tonumber(past) and not (oldest and oldest <= at)
    if is_past then over[#over + 1] = ids .. ':' .. start else kept[#kept + 1] = start end
    ends = start
  end
  if since then kept[#kept + 1] = '!' end
  -- Fact: deleting a hash of a million ids blocks the server for a second. Choice: UNLINK, which frees it in a thread.
  if #over > 0 then call('UNLINK', unpack(over)) end
  local rest = table.concat(kept, ' ')
  if rest == '' then call('DEL', ids) elseif rest ~= call('GET', ids) then call('SET', ids, rest) end
  return turned, table.concat(ended, ' ')
end
