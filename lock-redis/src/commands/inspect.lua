-- Reads the holders of a lock and the number of its waiters.
-- KEYS: lock, tokens, queue
-- Returns the number of waiters, then three entries for each holder: the member of the set of
-- holders (nothing for a plain string), the value with grant and metadata, and the remaining
-- milliseconds (-1: no expiry).
local queue = waiting(redis.call('GET', KEYS[3]))
local found = { #queue }
local function add(member, value, left)
  found[#found + 1], found[#found + 2], found[#found + 3] = member, value, left
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return found
end
local obstacle = foreign(KEYS[1])
if obstacle then
  return obstacle
elseif kind == 'string' then
  add('', redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]))
  return found
end
local now = server_ms()
local members = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for place = 1, #members, 2 do
  local left = tonumber(members[place + 1]) - now
  if left > 0 then
    add(members[place], redis.call('HGET', KEYS[2], members[place]) or '', left)
  end
end
return found
