#!lua flags=allow-oom
-- Renews the lease of the call that holds a key.
--
-- KEYS[1]  the record
-- ARGV     token, lease in µs
--
-- Returns {'extended'} or {'not_held'}.
local key, token, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- A completed, abandoned or released record has no lease.
local record = redis.call('HMGET', key, 'token', 'lease')
if record[1] ~= token or not record[2] then
  return {'not_held'}
end
redis.call('HSET', key, 'lease', string.format('%.0f', now + lease))
redis.call('PEXPIREAT', key, string.format('%.0f', math.floor((now + lease) / 1000)), 'GT')
return {'extended'}
