-- Beside a lock that is waited for stands who waits, in the order in which they came: until when the first of them has its
-- turn (0: it has none), when it is to be given one, then the kind (x, s, p) and client of each. Nothing but the order goes by
-- it. It may be lost at any time, and clients that know nothing of it do no harm.

-- How long others may go first, since a lock that stays in one process passes faster; how long a turn lasts, which who waits
-- needs to hear of it and ask; and how long all of this is kept, a little longer than the second after which waiters ask again.
local PATIENCE_MS, TURN_MS, KEPT_MS = 5, 10, 1100

local function server_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- Who waits, until when the first has its turn, and when it is to be given one. One that has let it pass is forgotten, and
-- so is one that has not asked for long: others who ask do not keep its place.
local function waiting(text)
  local words, line = {}, { asked = {} }
  for word in string.gmatch(text or '', '%S+') do
    words[#words + 1] = word
  end
  local turn_ends = tonumber(table.remove(words, 1) or 0) or 0
  local due = tonumber(table.remove(words, 1) or 0) or 0
  if #words == 0 then return line, 0, due end
  local now = server_ms()
  -- A turn that ends far ahead was given before the clock was set back.
  if turn_ends > 0 and (turn_ends <= now or turn_ends > now + KEPT_MS) then
    table.remove(words, 1)
    turn_ends = 0
  end
  for place, word in ipairs(words) do
    local who, asked = string.match(word, '^([^@]+)@(%d+)$')
    if who and math.abs(now - tonumber(asked)) < KEPT_MS then
      line[#line + 1] = who
      line.asked[who] = asked
    elseif place == 1 then
      turn_ends = 0
    end
  end
  return line, turn_ends, due
end

-- A server that is out of memory may refuse it.
local function note_waiting(waits, line, turn_ends, due)
  if #line == 0 then
    redis.call('DEL', waits)
  else
    local words = { string.format('%.0f %.0f', turn_ends, due) }
    for _, who in ipairs(line) do
      words[#words + 1] = who .. '@' .. line.asked[who]
    end
    redis.pcall('SET', waits, table.concat(words, ' '), 'PX', KEPT_MS)
  end
end

local function place_of(line, who)
  for place, one in ipairs(line) do
    if one == who then return place end
  end
end

local function kind_of(who)
  return string.sub(who, 1, 1)
end

-- For how many milliseconds a key that is free is kept for somebody else.
local function kept_for_others(text, who)
  local line, turn_ends = waiting(text)
  if turn_ends == 0 or not line[1] or line[1] == who or (kind_of(who) ~= 'x' and kind_of(line[1]) == kind_of(who)) then
    return 0
  end
  return math.max(turn_ends - server_ms(), 1)
end

-- Whether somebody of another kind came first, and has waited for long enough: it is not to wait until all of this kind have
-- gone by themselves.
local function is_behind_others(text, who)
  local line, _, due = waiting(text)
  for _, one in ipairs(line) do
    if one == who then return false end
    if kind_of(one) ~= kind_of(who) then return due <= server_ms() end
  end
  return false
end

-- Enters who was refused and waits. No more than some come to stand there, whatever clients do.
local function line_up(waits, who)
  local line, turn_ends, due = waiting(redis.call('GET', waits))
  if #line == 0 then
    due = server_ms() + PATIENCE_MS
  end
  if not place_of(line, who) and #line < 64 then
    line[#line + 1] = who
  end
  line.asked[who] = string.format('%.0f', server_ms())
  note_waiting(waits, line, turn_ends, due)
end

-- Takes out who was granted, if anybody waits.
local function leave_line(waits, text, who)
  local line, _, due = waiting(text)
  local place = place_of(line, who)
  if place then
    table.remove(line, place)
    due = server_ms() + PATIENCE_MS
    note_waiting(waits, line, 0, due)
  end
end

-- Keeps the key for a moment, which who has given back, for whoever else has waited longest.
local function pass_on(waits, text, who)
  local line, _, due = waiting(text)
  for place, one in ipairs(line) do
    if one ~= who then
      local now = server_ms()
      if due <= now then
        table.remove(line, place)
        table.insert(line, 1, one)
        note_waiting(waits, line, now + TURN_MS, due)
      end
      return
    end
  end
end

