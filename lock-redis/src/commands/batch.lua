-- Takes and releases many exclusive locks, one after the other.
-- KEYS: locks, then the waits of each, then the counter if one of them is taken
-- ARGV: for each lock the owner mark, and the ttl in ms to take it or nothing to release it; then the client
-- Answers a list: for each what it would be answered alone, or nil instead of an error, which whoever asks alone will
-- hear in full. Since each call costs, it looks at all locks in one, mints all grants in one, and deletes in one.
local values, released, waits_of, takes = {}, {}, {}, 0
local locks = (#ARGV - 1) / 2
local counter, who = KEYS[2 * locks + 1], 'x' .. ARGV[#ARGV]
local found, lines = redis.call('MGET', unpack(KEYS, 1, 2 * locks)), {}
for place = 1, locks do
  values[KEYS[place]], lines[KEYS[place]] = found[place], found[locks + place]
  waits_of[KEYS[place]] = KEYS[locks + place]
  if ARGV[2 * place] ~= '' then
    takes = takes + 1
  end
end

-- Minted for all takes that are left when one of them needs one.
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

local function take_what_seems_free(lock, mark, ttl)
  local grant = draw()
  local value = mark .. string.format('%.0f', grant)
  if redis.call('SET', lock, value, 'NX', 'PX', ttl) then
    values[lock] = value
    return grant
  end
  -- Something that is no string stands there.
  next_grant, grants = grant, grants + 1
  return take(lock, waits_of[lock], mark, ttl, who, draw)
end

local function ask(lock, mark, ttl)
  local value = values[lock]
  if ttl ~= '' then
    delete_what_was_released(lock)
    if not value and not lines[lock] then
      return take_what_seems_free(lock, mark, ttl)
    end
    local answer = take(lock, waits_of[lock], mark, ttl, who, draw)
    if type(answer) == 'number' and answer > 0 then
      values[lock] = redis.call('GET', lock)
    end
    return answer
  end
  if value and string.sub(value, 1, #mark) == mark then
    if lines[lock] then
      pass_on(waits_of[lock], lines[lock], who)
    end
    values[lock], released[lock] = false, true
    return 1
  end
  return 0
end

local answers = {}
for place = 1, locks do
  local mark, ttl = ARGV[2 * place - 1], ARGV[2 * place]
  local done, answer = pcall(ask, KEYS[place], mark, ttl)
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
  -- Nobody has seen them. It cannot matter if that is not allowed.
  redis.pcall('INCRBY', counter, -grants)
end
return answers
