-- The next grant number of the namespace. A counter that was lost, or restored from before its
-- time, starts again from the server's clock (see floor.lua), so that numbers only jump forward.
local function mint(counter)
  local grant = redis.call('INCR', counter)
  if grant < 1099511627776 then
    local now = redis.call('TIME')
    local floor = (now[1] - 1735689600) * 250000 + math.floor(now[2] / 4)
    if floor > grant then
      redis.call('SET', counter, string.format('%.0f', floor))
      grant = floor
    end
  end
  return grant
end
