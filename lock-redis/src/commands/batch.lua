-- Takes and releases many exclusive locks, one after the other. No waiter of the client waits for the
-- locks that are taken.
-- KEYS: locks, then the queue of each, then the counter if one of them is taken
-- ARGV: for each lock the owner mark, and ttl in ms and metadata to take it or nothing twice to
-- release it; then the client
-- Returns a list: for each lock the answer of a single call, or nil instead of an error, which the
-- client then gets by a call of its own. Each server call is expensive, so all locks are read by
-- one, all grants minted by one, and all released locks deleted by one.
local values, released, waits_of, takes = {}, {}, {}, 0
local locks = (#ARGV - 1) / 3
local counter, waiter = KEYS[2 * locks + 1], 'x' .. ARGV[#ARGV]
local found, queues = redis.call('MGET', unpack(KEYS, 1, 2 * locks)), {}
for place = 1, locks do
  values[KEYS[place]], queues[KEYS[place]] = found[place], found[locks + place]
  waits_of[KEYS[place]] = KEYS[locks + place]
  if ARGV[3 * place - 1] ~= '' then
    takes = takes + 1
  end
end

-- Mints for all remaining takes when the first of them needs a grant.
local next_grant, grants = 0, 0
local function draw()
  if grants == 0 then
    next_grant, grants = mint(counter, takes), takes
  end
  next_grant, grants = next_grant + 1, grants - 1
  return next_grant - 1
end

local function delete_what_was_released(lock)
  if released[lock] then
    redis.call('DEL', lock)
    released[lock] = nil
  end
end

local function take_what_seems_free(lock, mark, ttl, metadata)
  local grant = draw()
  local value = value_of(mark, grant, metadata)
  if redis.call('SET', lock, value, 'NX', 'PX', ttl) then
    values[lock] = value
    return grant
  end
  -- The key holds something other than a string.
  next_grant, grants = grant, grants + 1
  return take(lock, waits_of[lock], mark, ttl, metadata, waiter, true, draw)
end

local function ask(lock, mark, ttl, metadata)
  local value = values[lock]
  if ttl ~= '' then
    delete_what_was_released(lock)
    if not value and not queues[lock] then
      return take_what_seems_free(lock, mark, ttl, metadata)
    end
    local answer = take(lock, waits_of[lock], mark, ttl, metadata, waiter, true, draw)
    if type(answer) == 'number' and answer > 0 then
      values[lock] = redis.call('GET', lock)
    end
    return answer
  end
  if value and string.sub(value, 1, #mark) == mark then
    if queues[lock] then
      reserve_for_next(waits_of[lock], queues[lock], waiter)
    end
    values[lock], released[lock] = false, true
    return 1
  end
  return 0
end

local answers = {}
for place = 1, locks do
  local mark, ttl, metadata = ARGV[3 * place - 2], ARGV[3 * place - 1], ARGV[3 * place]
  local done, answer = pcall(ask, KEYS[place], mark, ttl, metadata)
  answers[place] = done and type(answer) == 'number' and answer
  if ttl ~= '' then
    takes = takes - 1
  end
end
local gone = {}
for lock in pairs(released) do
  gone[#gone + 1] = lock
end
if #gone > 0 then
  redis.call('DEL', unpack(gone))
end
if grants > 0 then
  -- Give back unused numbers, which no client has seen. Harmless if it is denied.
  redis.pcall('INCRBY', counter, -grants)
end
return answers
