-- Takes the key together with others of the same kind: a sorted set of holders by expiry.
-- KEYS: lock, tokens, counter   ARGV: owner mark, ttl in ms, limit (0: none)
-- The first character of the owner mark tells shared from permit claims.
-- Answers the grant number, or what busy says while the key is held otherwise or the limit is reached.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
  local obstacle = foreign(KEYS[1])
  if obstacle or kind ~= 'zset' then
    return obstacle or busy(KEYS[1])
  end
end
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local expires = now_ms + tonumber(ARGV[2])
local grant
if kind == 'zset' then
  drop_expired(now_ms)
  local first = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
    -- A resend: the first request was granted and its answer lost.
    grant = tonumber(redis.call('HGET', KEYS[2], ARGV[1]))
  elseif first and string.sub(first, 1, 1) ~= string.sub(ARGV[1], 1, 1) then
    return busy(KEYS[1])
  elseif tonumber(ARGV[3]) > 0 and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
    return busy(KEYS[1])
  end
end
if not grant then
  grant = mint(KEYS[3], 1)
  redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', grant))
end
redis.call('ZADD', KEYS[1], expires, ARGV[1])
expire_with_last()
return grant
