-- KEYS: lock, tokens   ARGV: owner mark, ttl in ms
-- Returns 1, or 0 if the owner is not among the holders. Leaves the expiry of the other holders.
if redis.call('TYPE', KEYS[1]).ok ~= 'zset' then
  return 0
end
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local expires = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0)
if expires <= now_ms then
  return 0
end
-- A server that is out of memory rejects ZADD, unless the script has written before.
redis.call('PERSIST', KEYS[1])
redis.call('ZADD', KEYS[1], now_ms + tonumber(ARGV[2]), ARGV[1])
expire_with_last()
return 1
