-- KEYS: lock   ARGV: owner mark
-- Answers 1, or 0 when the key was not ours.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and string.sub(held, 1, #ARGV[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
