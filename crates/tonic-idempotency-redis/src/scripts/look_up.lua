#!lua
-- Says what is known of a key. It writes nothing, and is for a server that could: only that may say that there is no record. Without that
-- flag it answers for others, too, and is believed if it finds one.
--
-- KEYS[1]  the record
--
-- Returns {'absent'}, or {'running', 'unknown' or the kind of the outcome, procedure, created in µs, completed in µs or false,
-- expires in ms, resource type, resource id}.
local key = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local record = redis.call('HMGET', key, 'token', 'outcome', 'lease', 'procedure', 'created', 'completed', 'resource_type', 'resource_id')
if not record[1] then
  return {'absent'}
end
local state = record[2] or (tonumber(record[3] or 0) > now and 'running' or 'unknown')
return {state, record[4], record[5], record[6], redis.call('PEXPIRETIME', key), record[7], record[8]}
