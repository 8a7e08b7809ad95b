-- Replaces a hold by a claim in another mode.
-- KEYS: lock, tokens, counter   ARGV: owner mark of the hold, owner mark of the claim, ttl in ms,
-- metadata of the holder
-- Returns the grant number, 0 if neither holds the key, or -1 if other holders are in the way of an
-- exclusive claim.
local from, to = ARGV[1], ARGV[2]
local is_exclusive = string.sub(to, -1) == ':'
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local kind = redis.call('TYPE', KEYS[1]).ok
local value = kind == 'string' and redis.call('GET', KEYS[1])

local function has(mark)
  if value then
    return string.sub(value, 1, #mark) == mark
  end
  return kind == 'zset' and tonumber(redis.call('ZSCORE', KEYS[1], mark) or 0) > now_ms
end

local function add()
  redis.call('ZADD', KEYS[1], now_ms + tonumber(ARGV[3]), to)
  expire_with_last()
end

if has(to) then
  -- A resend: the first request was granted and its answer lost.
  if value then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    return tonumber(string.match(value, '^%d+', #to + 1))
  end
  -- A server that is out of memory rejects ZADD, unless the script has written before.
  redis.call('PERSIST', KEYS[1])
  add()
  return tonumber(string.match(redis.call('HGET', KEYS[2], to) or '0', '^%d+'))
end
if not has(from) then
  return 0
end
if not value then
  drop_expired(now_ms)
  if is_exclusive and redis.call('ZCARD', KEYS[1]) > 1 then
    return -1
  end
end
local grant = mint(KEYS[3], 1)
local text = string.format('%.0f ', grant) .. ARGV[4]
if is_exclusive then
  redis.call('SET', KEYS[1], to .. text, 'PX', ARGV[3])
  redis.call('DEL', KEYS[2])
  return grant
end
if value then
  redis.call('DEL', KEYS[1], KEYS[2])
else
  redis.call('ZREM', KEYS[1], from)
  forget(from)
end
redis.call('HSET', KEYS[2], to, text)
add()
return grant
