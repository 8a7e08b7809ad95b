-- Returns true if a member of a sorted set is a polylock holder: its mode and 32 hexadecimal
-- digits.
local function is_mark(member)
  return not member or (#member == 33 and string.find(member, '^[spu]%x+$') ~= nil)
end

-- Returns the answer for a held key: minus its remaining milliseconds, minus 2. Without an expiry:
-- -1.
local function busy(key)
  return -2 - redis.call('PTTL', key)
end

-- Returns an error if the key is no lock: neither a string nor a sorted set of shared or permit
-- claims. Returns nil for a lock.
local function foreign(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' or (kind == 'zset' and is_mark(redis.call('ZRANGE', key, 0, 0)[1])
      and is_mark(redis.call('ZRANGE', key, -1, -1)[1])) then
    return nil
  end
  return redis.error_reply('FOREIGN the key holds a ' .. kind .. ', which is no lock')
end
