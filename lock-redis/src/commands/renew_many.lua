-- KEYS: lock, tokens   ARGV: owner mark, ttl in ms
-- Answers 1, or 0 when we are not among the holders any more. Touches nobody else's expiry.
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then
  return 0
end
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local expires = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
if expires <= now_ms then
  return 0
end
-- A server that is out of memory refuses ZADD, unless the script has written something already.
redis.call('PERSIST', KEYS[1])
redis.call('ZADD', KEYS[1], now_ms + tonumber(ARGV[2]), ARGV[1])
expire_with_last()
return 1
