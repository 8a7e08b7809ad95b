-- Raises the namespace's counter to the server's clock, in units of 4 microseconds since
-- 2025-01-01. Run on every new connection, so that a server that lost its memory, or a replica that
-- took over, grants numbers above all that were granted before.
-- KEYS: counter
local now = redis.call('TIME')
local floor = (now[1] - 1735689600) * 250000 + math.floor(now[2] / 4)
if floor > tonumber(redis.call('GET', KEYS[1]) or 0) then
  redis.call('SET', KEYS[1], string.format('%.0f', floor))
end
return 1
