-- KEYS: lock   ARGV: owner mark, ttl in ms
-- Returns 1, or 0 if the key has another owner. Never creates a missing key.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and string.sub(held, 1, #ARGV[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  -- CLIENT TRACKING: the server pushes the next change only after a read that follows the last
  -- write.
  redis.call('GET', KEYS[1])
  return 1
end
return 0
