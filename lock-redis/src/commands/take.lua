-- Takes the key as a plain string, the layout that other lock clients use too.
-- Answers the grant number, drawn from draw, or what busy says while somebody else holds the key.
local function take(lock, waits, mark, ttl, who, draw)
  local held = redis.pcall('GET', lock)
  if held == false then
    local line = redis.call('GET', waits)
    local kept = line and kept_for_others(line, who) or 0
    if kept > 0 then
      return -2 - kept
    end
    local grant = draw()
    redis.call('SET', lock, mark .. string.format('%.0f', grant), 'PX', ttl)
    if line then
      leave_line(waits, line, who)
    end
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

