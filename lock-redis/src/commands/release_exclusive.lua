-- KEYS: lock, waits   ARGV: owner mark, client
-- Answers 1, or 0 when the key was not ours.
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and string.sub(held, 1, #ARGV[1]) == ARGV[1] then
  local line = redis.call('GET', KEYS[2])
  if line then
    pass_on(KEYS[2], line, 'x' .. ARGV[2])
  end
  return redis.call('DEL', KEYS[1])
end
return 0
