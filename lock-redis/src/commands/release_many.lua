-- KEYS: lock, tokens, waits   ARGV: owner mark, client
-- Answers 1, or 0 when we were not among the holders.
-- Our token goes in any case: an operator may have deleted the lock and left the tokens.
redis.call('HDEL', KEYS[2], ARGV[1])
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then
  return 0
end
local removed = redis.call('ZREM', KEYS[1], ARGV[1])
if removed == 1 then
  expire_with_last()
  local line = redis.call('GET', KEYS[3])
  if line and redis.call('TYPE', KEYS[1]).ok == 'none' then
    pass_on(KEYS[3], line, string.sub(ARGV[1], 1, 1) .. ARGV[2])
  end
end
return removed
