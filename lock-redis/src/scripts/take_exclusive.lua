-- KEYS: lock   ARGV: owner mark, ttl in ms, counter
return take(KEYS[1], ARGV[1], ARGV[2], function() return mint(ARGV[3], 1) end)
