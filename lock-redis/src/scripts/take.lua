-- Takes the key as a plain string, the layout that other lock clients use too.
-- Answers the grant number, drawn from draw, or what busy says while somebody else holds the key.
local function take(lock, mark, ttl, draw)
  local held = redis.pcall('GET', lock)
  if held == false then
    local grant = draw()
    redis.call('SET', lock, mark .. string.format('%.0f', grant), 'PX', ttl)
    return grant
  end
  if type(held) == 'string' then
    if string.sub(held, 1, #mark) == mark then
      -- A resend: the first request was granted and its answer lost.
      redis.call('PEXPIRE', lock, ttl)
      return tonumber(string.sub(held, #mark + 1))
    end
    return busy(lock)
  end
  return foreign(lock) or busy(lock)
end

