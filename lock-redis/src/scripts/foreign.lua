-- Whether a member of a sorted set is a holder of ours: its kind and 32 hexadecimal digits.
local function is_mark(member)
  return not member or (#member == 33 and string.find(member, '^[sp]%x+$') ~= nil)
end

-- What to answer about a key that we cannot take as a plain string: a sorted set of ours is held by
-- shared or permit claims, anything else is not a lock.
local function busy_or_foreign(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' or (kind == 'zset' and is_mark(redis.call('ZRANGE', key, 0, 0)[1])
      and is_mark(redis.call('ZRANGE', key, -1, -1)[1])) then
    return false
  end
  return redis.error_reply('FOREIGN the key holds a ' .. kind .. ', which is no lock')
end
