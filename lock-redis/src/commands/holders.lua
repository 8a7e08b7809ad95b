-- Removes expired holders, each by its own expiry.
local function drop_expired(now_ms)
  local gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms)
  for _, mark in ipairs(gone) do
    redis.call('ZREM', KEYS[1], mark)
    redis.call('HDEL', KEYS[2], mark)
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
