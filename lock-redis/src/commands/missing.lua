-- ARGV: names of commands
-- Returns those that the server does not have. All but TIME lack arguments here, so none has an
-- effect.
local missing = {}
for _, name in ipairs(ARGV) do
  local answer = redis.pcall(name)
  local problem = type(answer) == 'table' and answer.err or ''
  if string.find(problem, 'Unknown Redis command', 1, true) then
    missing[#missing + 1] = name
  end
end
return missing
