-- Takes several keys exclusively: all of them, or none.
-- KEYS: locks, then the queue of each, then the counter
-- ARGV: for each lock the owner mark, ttl in ms and metadata of the holder; then the client
-- Returns the first of consecutive grant numbers, one for each lock, or 0 if a key is held or
-- reserved for another waiter.
local locks, waiter = (#ARGV - 1) / 3, 'x' .. ARGV[#ARGV]
local found = redis.call('MGET', unpack(KEYS, 1, 2 * locks))
for place = 1, locks do
  local queue = found[locks + place]
  if found[place] or (queue and kept_for_others(queue, waiter, false) > 0) then
    return 0
  end
end
local grant = mint(KEYS[2 * locks + 1], locks)
for place = 1, locks do
  local mark, ttl, metadata = ARGV[3 * place - 2], ARGV[3 * place - 1], ARGV[3 * place]
  local value = value_of(mark, grant + place - 1, metadata)
  if not redis.call('SET', KEYS[place], value, 'NX', 'PX', ttl) then
    -- The key holds something other than a string, such as a shared lock.
    if place > 1 then
      redis.call('DEL', unpack(KEYS, 1, place - 1))
    end
    return 0
  end
end
return grant
