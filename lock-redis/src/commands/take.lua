-- Returns the value of a held key: the owner mark, the grant number and the holder's metadata.
local function value_of(mark, grant, metadata)
  return mark .. string.format('%.0f ', grant) .. metadata
end

-- Takes the key as a plain string, the layout of other lock clients. Returns the grant number, from
-- draw, or the answer of busy while another client holds the key.
local function take(lock, waits, mark, ttl, metadata, waiter, is_only, draw)
  local held = redis.pcall('GET', lock)
  if held == false then
    local queue = redis.call('GET', waits)
    local kept = queue and kept_for_others(queue, waiter, is_only) or 0
    if kept > 0 then
      return -2 - kept
    end
    local grant = draw()
    redis.call('SET', lock, value_of(mark, grant, metadata), 'PX', ttl)
    if queue then
      leave_queue(waits, queue, waiter, is_only)
    end
    return grant
  end
  if type(held) == 'string' then
    if string.sub(held, 1, #mark) == mark then
      -- A resend: the first request was granted and its answer lost.
      redis.call('PEXPIRE', lock, ttl)
      return tonumber(string.match(held, '^%d+', #mark + 1))
    end
    return busy(lock)
  end
  return foreign(lock) or busy(lock)
end

