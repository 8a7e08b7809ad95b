-- The queue of a lock's waiters is a string at a key of its own. It starts with the end of the
-- first waiter's turn (0: no turn) and the time from which a turn is due. Mode (x, s, p) and client
-- of each waiter follow, in order of arrival. It decides order only, never exclusion. It may be
-- lost at any time, and clients that ignore it do no harm.

-- PATIENCE_MS: time before a turn is due. A lock that stays in one process passes faster. TURN_MS:
-- length of a turn, in which the waiter gets the push and asks. KEPT_MS: expiry of the queue, a
-- little more than the second after which waiters ask again.
local PATIENCE_MS, TURN_MS, KEPT_MS = 5, 10, 1100

local function server_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- Returns the waiters, the end of the first waiter's turn, and when a turn is due. A waiter that
-- missed its turn is removed, and so is one that has not asked for long, even if other waiters ask.
local function waiting(text)
  local words, queue = {}, { asked = {} }
  for word in string.gmatch(text or '', '%S+') do
    words[#words + 1] = word
  end
  local turn_ends = tonumber(table.remove(words, 1) or 0) or 0
  local due = tonumber(table.remove(words, 1) or 0) or 0
  if #words == 0 then return queue, 0, due end
  local now = server_ms()
  -- A turn that ends far ahead was given before the clock was set back.
  if turn_ends > 0 and (turn_ends <= now or turn_ends > now + KEPT_MS) then
    table.remove(words, 1)
    turn_ends = 0
  end
  for place, word in ipairs(words) do
    local waiter, asked = string.match(word, '^([^@]+)@(%d+)$')
    if waiter and math.abs(now - tonumber(asked)) < KEPT_MS then
      queue[#queue + 1] = waiter
      queue.asked[waiter] = asked
    elseif place == 1 then
      turn_ends = 0
    end
  end
  return queue, turn_ends, due
end

-- A server that is out of memory may reject the SET.
local function note_waiting(waits, queue, turn_ends, due)
  if #queue == 0 then
    redis.call('DEL', waits)
  else
    local words = { string.format('%.0f %.0f', turn_ends, due) }
    for _, waiter in ipairs(queue) do
      words[#words + 1] = waiter .. '@' .. queue.asked[waiter]
    end
    redis.pcall('SET', waits, table.concat(words, ' '), 'PX', KEPT_MS)
  end
end

local function place_of(queue, waiter)
  for place, one in ipairs(queue) do
    if one == waiter then return place end
  end
end

local function kind_of(waiter)
  return string.sub(waiter, 1, 1)
end

-- Returns true if one is an entry of waiter's client whose waiter has given up. Of a client, one
-- waiter at a time asks for a key. is_only: this waiter does, or none of the client waits.
local function is_abandoned(one, waiter, is_only)
  return is_only and one ~= waiter and string.sub(one, 2) == string.sub(waiter, 2)
end

-- Returns the milliseconds for which a free key is reserved for another waiter.
local function kept_for_others(text, waiter, is_only)
  local queue, turn_ends = waiting(text)
  local first = queue[1]
  if turn_ends == 0 or not first or first == waiter or is_abandoned(first, waiter, is_only) or (kind_of(waiter) ~= 'x' and kind_of(first) == kind_of(waiter)) then
    return 0
  end
  return math.max(turn_ends - server_ms(), 1)
end

-- Returns true if a waiter of another mode came first and its turn is due. It need not wait until
-- all holders of this mode have left by themselves.
local function is_behind_others(text, waiter, is_only)
  local queue, _, due = waiting(text)
  for _, one in ipairs(queue) do
    if one == waiter then return false end
    if kind_of(one) ~= kind_of(waiter) and not is_abandoned(one, waiter, is_only) then
      return due <= server_ms()
    end
  end
  return false
end

-- Removes the waiter, unless it stays, and the abandoned entries of its client. Returns true if any
-- was removed, and true if one of these was the first.
local function remove_own(queue, waiter, is_only, stays)
  local is_removed, was_first = false, false
  for place = #queue, 1, -1 do
    local one = queue[place]
    if (one == waiter and not stays) or is_abandoned(one, waiter, is_only) then
      table.remove(queue, place)
      is_removed, was_first = true, place == 1
    end
  end
  return is_removed, was_first
end

-- Enters a refused waiter. The queue has at most 64 entries.
local function enter_queue(waits, waiter)
  local queue, turn_ends, due = waiting(redis.call('GET', waits))
  local _, was_first = remove_own(queue, waiter, true, true)
  if was_first then
    turn_ends = 0
  end
  if #queue == 0 then
    due = server_ms() + PATIENCE_MS
  end
  if not place_of(queue, waiter) and #queue < 64 then
    queue[#queue + 1] = waiter
  end
  queue.asked[waiter] = string.format('%.0f', server_ms())
  note_waiting(waits, queue, turn_ends, due)
end

-- Removes a waiter that was granted the lock.
local function leave_queue(waits, text, waiter, is_only)
  local queue, _, due = waiting(text)
  if remove_own(queue, waiter, is_only) then
    due = server_ms() + PATIENCE_MS
    note_waiting(waits, queue, 0, due)
  end
end

-- After a release by waiter, reserves the key for the other waiter that has waited longest, if a
-- turn is due.
local function reserve_for_next(waits, text, waiter)
  local queue, _, due = waiting(text)
  for place, one in ipairs(queue) do
    if one ~= waiter then
      local now = server_ms()
      if due <= now then
        table.remove(queue, place)
        table.insert(queue, 1, one)
        note_waiting(waits, queue, now + TURN_MS, due)
      end
      return
    end
  end
end

