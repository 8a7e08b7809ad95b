-- KEYS: lock, queue, counter   ARGV: owner mark, ttl in ms, client; 1 if it waits, else 0 if no
-- waiter of the client waits for the key; metadata of the holder
local waiter = 'x' .. ARGV[3]
local answer = take(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[5], waiter, ARGV[4] ~= '', function() return mint(KEYS[3], 1) end)
if ARGV[4] == '1' and type(answer) == 'number' and answer < 0 then
  enter_queue(KEYS[2], waiter)
end
return answer
