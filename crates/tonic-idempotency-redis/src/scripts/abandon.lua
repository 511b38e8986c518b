#!lua flags=allow-oom
-- Ends the lease of the call that holds a key, and notes that its outcome is not known.
--
-- KEYS[1]  the record
-- ARGV     token
--
-- Returns {'abandoned'} or {'not_held'}.
local key, token = KEYS[1], ARGV[1]

local record = redis.call('HMGET', key, 'token', 'outcome')
if record[1] ~= token or record[2] then
  return {'not_held'}
end
redis.call('HSET', key, 'unknown', '1')
redis.call('HDEL', key, 'lease')
return {'abandoned'}
