-- What to answer about a key that is no string: a sorted set is held by shared or permit claims,
-- anything else is not a lock.
local function busy_or_foreign(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'zset' or kind == 'string' then
    return false
  end
  return redis.error_reply('FOREIGN the key holds a ' .. kind .. ', which is no lock')
end
