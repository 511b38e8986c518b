#!lua flags=allow-oom
-- Records the outcome of the call that holds a key.
--
-- KEYS[1]  the record
-- ARGV     token, retention in µs, '1' if the answer has to reach the replicas, 'message', 'error' or 'not_stored', and then
--          names and values of 'body', 'metadata', 'resource_type' and 'resource_id', as far as there are any
--
-- Returns {'completed'}, {'already_completed'} or {'fenced'}.
local key, token, retention, replicate = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local record = redis.call('HMGET', key, 'token', 'outcome')
if record[1] ~= token then
  return {'fenced'}
end
if record[2] then
  -- WAIT counts from the last write of its own connection.
  if replicate then
    redis.call('HSET', key, 'token', token)
  end
  return {'already_completed'}
end
redis.call('HSET', key, 'outcome', ARGV[4], 'completed', string.format('%.0f', now), unpack(ARGV, 5))
redis.call('HDEL', key, 'lease', 'unknown')
redis.call('PEXPIREAT', key, string.format('%.0f', math.floor((now + retention) / 1000)))
return {'completed'}
