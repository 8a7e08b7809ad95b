-- KEYS: lock, waits, counter   ARGV: owner mark, ttl in ms, client, 1 if it waits
local who = 'x' .. ARGV[3]
local answer = take(KEYS[1], KEYS[2], ARGV[1], ARGV[2], who, function() return mint(KEYS[3], 1) end)
if ARGV[4] == '1' and type(answer) == 'number' and answer < 0 then
  line_up(KEYS[2], who)
end
return answer
