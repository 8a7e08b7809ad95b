-- Takes the key together with other holders of the same mode: a sorted set of holders by expiry.
-- KEYS: lock, tokens, queue, counter   ARGV: owner mark, ttl in ms, client; 1 if it waits, else 0 if
-- no waiter of the client waits for the key; metadata of the holder; limit (0: none)
-- The first character of the owner mark is the mode, shared or permit. Returns the grant number, or
-- the answer of busy while the key is held in another mode or the limit is reached.
local waiter, is_only = string.sub(ARGV[1], 1, 1) .. ARGV[3], ARGV[4] ~= ''
local function refuse(answer)
  if ARGV[4] == '1' then
    enter_queue(KEYS[3], waiter)
  end
  return answer
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
  local obstacle = foreign(KEYS[1])
  if obstacle then
    return obstacle
  elseif kind ~= 'zset' then
    return refuse(busy(KEYS[1]))
  end
end
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local expires = now_ms + tonumber(ARGV[2])
local queue = redis.call('GET', KEYS[3])
local grant, first
if kind == 'zset' then
  drop_expired(now_ms)
  first = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
    -- A resend: the first request was granted and its answer lost.
    grant = tonumber(string.match(redis.call('HGET', KEYS[2], ARGV[1]) or '', '^%d+'))
  elseif first and string.sub(first, 1, 1) ~= string.sub(ARGV[1], 1, 1) then
    return refuse(busy(KEYS[1]))
  elseif tonumber(ARGV[6]) > 0 and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[6]) then
    return refuse(busy(KEYS[1]))
  elseif first and queue and is_behind_others(queue, waiter, is_only) then
    return refuse(busy(KEYS[1]))
  end
end
if not grant then
  local kept = not first and queue and kept_for_others(queue, waiter, is_only) or 0
  if kept > 0 then
    return refuse(-2 - kept)
  end
  grant = mint(KEYS[4], 1)
  redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f ', grant) .. ARGV[5])
  if queue then
    leave_queue(KEYS[3], queue, waiter, is_only)
  end
end
redis.call('ZADD', KEYS[1], expires, ARGV[1])
expire_with_last()
return grant
