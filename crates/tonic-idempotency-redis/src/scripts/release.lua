#!lua flags=allow-oom
-- Frees the key of the call that holds it; a key that it has taken over keeps what is known of the calls before.
--
-- KEYS[1]  the record
-- ARGV     token
--
-- Returns {'released'} or {'not_held'}.
local key, token = KEYS[1], ARGV[1]

local record = redis.call('HMGET', key, 'token', 'outcome', 'attempts', 'unknown')
if record[1] ~= token or record[2] then
  return {'not_held'}
end
if record[3] == '1' and not record[4] then
  redis.call('DEL', key)
else
  redis.call('HDEL', key, 'lease')
end
return {'released'}
