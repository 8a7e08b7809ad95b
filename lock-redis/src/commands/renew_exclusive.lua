-- KEYS: lock   ARGV: owner mark, ttl in ms
-- Answers 1, or 0 when the key is not ours any more. Never creates what is missing.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and string.sub(held, 1, #ARGV[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  -- The read after the last write is what the server goes by to tell us of the next change.
  redis.call('GET', KEYS[1])
  return 1
end
return 0
