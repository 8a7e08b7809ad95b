-- Takes the key as a plain string, the layout of other lock clients. Returns the grant number, from
-- draw, or the answer of busy while another client holds the key.
local function take(lock, waits, mark, ttl, waiter, is_only, draw)
  local held = redis.pcall('GET', lock)
  if held == false then
    local queue = redis.call('GET', waits)
    local kept = queue and kept_for_others(queue, waiter, is_only) or 0
    if kept > 0 then
      return -2 - kept
    end
    local grant = draw()
    redis.call('SET', lock, mark .. string.format('%.0f', grant), 'PX', ttl)
    if queue then
      leave_queue(waits, queue, waiter, is_only)
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

