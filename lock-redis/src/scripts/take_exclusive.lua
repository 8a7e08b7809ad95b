-- Takes the key as a plain string, the layout that other lock clients use too.
-- KEYS: lock   ARGV: owner mark, ttl in ms, counter
-- Answers the grant number, or what busy says while somebody else holds the key.
local held = redis.pcall('GET', KEYS[1])
if held == false then
  local grant = mint(ARGV[3])
  redis.call('SET', KEYS[1], ARGV[1] .. string.format('%.0f', grant), 'PX', ARGV[2])
  return grant
end
if type(held) == 'string' then
  if string.sub(held, 1, #ARGV[1]) == ARGV[1] then
    -- A resend: the first request was granted and its answer lost.
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return tonumber(string.sub(held, #ARGV[1] + 1))
  end
  return busy(KEYS[1])
end
return foreign(KEYS[1]) or busy(KEYS[1])
