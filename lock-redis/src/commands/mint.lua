-- Returns the first of count consecutive grant numbers of the namespace. A counter that was lost,
-- or restored from an old copy, restarts at the server's clock (see floor.lua), so numbers only
-- jump forward.
local function mint(counter, count)
  local last = redis.call('INCRBY', counter, count)
  if last < 1099511627776 then
    local now = redis.call('TIME')
    local floor = (now[1] - 1735689600) * 250000 + math.floor(now[2] / 4)
    if floor > last then
      last = floor + count
      redis.call('SET', counter, string.format('%.0f', last))
    end
  end
  return last - count + 1
end

