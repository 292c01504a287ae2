#!lua flags=no-writes
-- Which events' ids a queue knows, by the same index and rules as accept.lua; nothing is added.
--
-- KEYS[1]  the stream
-- ARGV     retention in milliseconds; then index field, producer and body of each event
-- Reply    a string with one digit for each event: 0 unknown, 1 duplicate, 2 another producer's, 3 duplicate whose body
--          is another one, 6 duplicate whose body the caller must compare: it is compressed
local stream = KEYS[1]
local ids = '{' .. stream .. '}:ids'
local time = redis.call('TIME')
local oldest = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1]
local starts = {}
for start in string.gmatch(redis.call('GET', ids) or '', '%d+') do starts[#starts + 1] = start end

local function verdict(field, producer, body)
  for _, start in ipairs(starts) do
    local value = redis.call('HGET', ids .. ':' .. start, field)
    local entry = value and entry_name(start, value)
    local found = entry and tonumber(string.match(entry, '^%d+')) > oldest and redis.call('XRANGE', stream, entry, entry)[1]
    if found then
      local members, mine, same, encoded = found[2], false, false, false
      for name = 1, #members, 2 do
        if members[name] == 'encoding' then encoded = true end
        if members[name] == 'producer' then mine = members[name + 1] == producer end
        if members[name] == 'body' then same = members[name + 1] == body end
      end
      return not mine and '2' or same and '1' or encoded and '6' or '3'
    end
  end
  return '0'
end

local verdicts = {}
for at = 2, #ARGV, 3 do verdicts[#verdicts + 1] = verdict(ARGV[at], ARGV[at + 1], ARGV[at + 2]) end
return table.concat(verdicts)
