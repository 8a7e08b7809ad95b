-- KEYS: lock, tokens, queue   ARGV: owner mark, client
-- Returns 1, or 0 if the owner is not among the holders. The token is removed in any case: an
-- operator may have deleted the lock and left the tokens.
forget(ARGV[1])
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then
  return 0
end
local removed = redis.call('ZREM', KEYS[1], ARGV[1])
if removed == 1 then
  expire_with_last()
  local queue = redis.call('GET', KEYS[3])
  if queue and redis.call('TYPE', KEYS[1]).ok == 'none' then
    reserve_for_next(KEYS[3], queue, string.sub(ARGV[1], 1, 1) .. ARGV[2])
  end
end
return removed
