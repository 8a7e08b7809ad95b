-- KEYS: lock, queue   ARGV: owner mark, client
-- Returns 1, or 0 if the key has another owner.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and string.sub(held, 1, #ARGV[1]) == ARGV[1] then
  local queue = redis.call('GET', KEYS[2])
  if queue then
    reserve_for_next(KEYS[2], queue, 'x' .. ARGV[2])
  end
  return redis.call('DEL', KEYS[1])
end
return 0
