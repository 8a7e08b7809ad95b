-- KEYS: lock, counter   ARGV: owner mark, ttl in ms
return take(KEYS[1], ARGV[1], ARGV[2], function() return mint(KEYS[2], 1) end)
