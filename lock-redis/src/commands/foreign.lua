-- Whether a member of a sorted set is a holder of ours: its kind and 32 hexadecimal digits.
local function is_mark(member)
  return not member or (#member == 33 and string.find(member, '^[sp]%x+$') ~= nil)
end

-- What to answer about a key that is held: for how many more milliseconds, as a negative number, and 2 less;
-- -1 is without an end.
local function busy(key)
  return -2 - redis.call('PTTL', key)
end

-- The error about a key that is no lock: neither a plain string nor a sorted set of shared or permit claims of
-- ours. Nil about a lock.
local function foreign(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' or (kind == 'zset' and is_mark(redis.call('ZRANGE', key, 0, 0)[1])
      and is_mark(redis.call('ZRANGE', key, -1, -1)[1])) then
    return nil
  end
  return redis.error_reply('FOREIGN the key holds a ' .. kind .. ', which is no lock')
end
