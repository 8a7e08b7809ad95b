-- Takes the key together with other holders of the same mode: a sorted set of holders by expiry.
-- KEYS: lock, tokens, queue, counter   ARGV: owner mark, ttl in ms, client; 1 if it waits, else 0 if
-- no waiter of the client waits for the key; metadata of the holder; limit (0: none)
-- The first character of the owner mark is the mode: shared, upgradeable or permit. Returns the grant
-- number, for a permit with its slot, or the answer of busy while the key is held in a conflicting
-- mode or the limit is reached.
local mode = string.sub(ARGV[1], 1, 1)
local waiter, is_only = mode .. ARGV[3], ARGV[4] ~= ''
local function refuse(answer)
  if ARGV[4] == '1' then
    enter_queue(KEYS[3], waiter)
  end
  return answer
end

-- Returns true if the holders beside first are of a mode that conflicts.
local function conflicts(first)
  if (string.sub(first, 1, 1) == 'p') ~= (mode == 'p') then
    return true
  end
  local upgradeable = mode == 'u' and redis.call('HGET', KEYS[2], 'u')
  return upgradeable and redis.call('ZSCORE', KEYS[1], upgradeable)
end

-- Returns the lowest slot that no holder has. An operator may have deleted holders and left their
-- tokens; only if the slots seem used up, each holder is looked for.
local function free_slot(of, looks)
  local taken, tokens = {}, redis.call('HGETALL', KEYS[2])
  for place = 1, #tokens, 2 do
    local slot = tonumber(string.match(tokens[place + 1], '^%d+ (%d+)') or '')
    if slot and (not looks or redis.call('ZSCORE', KEYS[1], tokens[place])) then
      taken[slot] = true
    end
  end
  for slot = 0, of - 1 do
    if not taken[slot] then return slot end
  end
  if not looks then
    return free_slot(of, true)
  end
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
local grant, slot, first
if kind == 'zset' then
  drop_expired(now_ms)
  first = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
    -- A resend: the first request was granted and its answer lost.
    grant, slot = string.match(redis.call('HGET', KEYS[2], ARGV[1]) or '', '^(%d+) ?(%d*)')
    grant, slot = tonumber(grant), tonumber(slot)
  elseif first and conflicts(first) then
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
  local text = string.format('%.0f ', grant)
  if mode == 'p' then
    slot = first and free_slot(tonumber(ARGV[6])) or 0
    text = text .. slot .. ' '
  end
  if not first then
    -- An operator may have deleted the lock and left the tokens.
    redis.call('DEL', KEYS[2])
  end
  redis.call('HSET', KEYS[2], ARGV[1], text .. ARGV[5])
  if mode == 'u' then
    redis.call('HSET', KEYS[2], 'u', ARGV[1])
  end
  if queue then
    leave_queue(KEYS[3], queue, waiter, is_only)
  end
end
redis.call('ZADD', KEYS[1], expires, ARGV[1])
expire_with_last()
return slot and { grant, slot } or grant
