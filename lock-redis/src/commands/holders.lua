-- The hash of tokens holds, for each holder, its grant number and the slot of a permit, with a space
-- between. Its field u holds the mark of the upgradeable holder, if there is one.

-- Removes what the hash of tokens holds about a holder.
local function forget(mark)
  redis.call('HDEL', KEYS[2], mark)
  if string.sub(mark, 1, 1) == 'u' and redis.call('HGET', KEYS[2], 'u') == mark then
    redis.call('HDEL', KEYS[2], 'u')
  end
end

-- Removes expired holders, each by its own expiry.
local function drop_expired(now_ms)
  local gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms)
  for _, mark in ipairs(gone) do
    redis.call('ZREM', KEYS[1], mark)
    forget(mark)
  end
end

-- Lets the keys expire together with their last holder.
local function expire_with_last()
  local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
  if last[2] then
    redis.call('PEXPIREAT', KEYS[1], last[2])
    redis.call('PEXPIREAT', KEYS[2], last[2])
  end
end
