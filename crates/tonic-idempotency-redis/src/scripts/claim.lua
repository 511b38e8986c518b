#!lua
-- Reserves a key, or says why it cannot: the table of `ClaimOutcome`.
--
-- KEYS[1]  the record
-- ARGV     token, procedure, canonical hash, arrival hash or '', lease in µs, lifetime of the reservation in µs,
--          'reconcile', 'refuse' or 'rerun', and the time in µs after which it writes nothing
--
-- An attempt may arrive late: after its call gave up on it, claimed the key with a later attempt, and released the key. Its reservation
-- would have no holder. So each attempt has a deadline on the server's clock, which the client knows from earlier answers. With the
-- deadline 0 it never writes, so that a server that refuses writes still replays.
--
-- Returns {'acquired', clock in µs}, {'taken_over', clock}, {'late', clock}, {'in_flight', µs left}, {'mismatch', 'procedure' or 'request'},
-- {'unknown'}, or {'replay', kind, body, metadata, resource type, resource id, µs left}.
local key, token, procedure, canonical, arrival = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local lease, lifetime, on_lease_ended, deadline = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- A number as Redis reads it. Lua would write 1.7e+15.
local function digits(number)
  return string.format('%.0f', number)
end

-- Whether a hash of the claim is this recorded one. No recorded hash is empty.
local function known(recorded)
  return recorded and (recorded == canonical or recorded == arrival)
end

local function expire(...)
  redis.call('PEXPIREAT', key, digits(math.floor((now + lifetime) / 1000)), ...)
end

local record = redis.call('HMGET', key, 'token', 'procedure', 'canonical', 'arrival', 'attempts', 'lease', 'unknown', 'outcome')
local holder, attempts, lease_ends, outcome = record[1], record[5], tonumber(record[6] or 0), record[8]

if not holder then
  if now > deadline then
    return {'late', now}
  end
  redis.call('HSET', key, 'token', token, 'procedure', procedure, 'canonical', canonical, 'attempts', 1,
    'created', digits(now), 'lease', digits(now + lease))
  if arrival ~= '' then
    redis.call('HSET', key, 'arrival', arrival)
  end
  expire()
  return {'acquired', now}
end

if record[2] ~= procedure then
  return {'mismatch', 'procedure'}
end
if not known(record[3]) and not known(record[4]) then
  return {'mismatch', 'request'}
end

if outcome then
  local found = redis.call('HMGET', key, 'body', 'metadata', 'resource_type', 'resource_id')
  local left = redis.call('PEXPIRETIME', key) * 1000 - now
  return {'replay', outcome, found[1], found[2], found[3], found[4], left}
end

if holder == token and record[6] then
  -- An earlier attempt of this claim, whose answer was lost, or which no replica had yet: WAIT counts from the last write of its own
  -- connection. What was abandoned or released has no lease to renew, and its call has ended: an attempt that arrives late gets nothing.
  if now > deadline then
    return {'late', now}
  end
  redis.call('HSET', key, 'lease', digits(now + lease))
  expire('GT')
  return {attempts == '1' and 'acquired' or 'taken_over', now}
end
if lease_ends > now then
  return {'in_flight', lease_ends - now}
end
if holder ~= token and (on_lease_ended == 'reconcile' or (on_lease_ended == 'rerun' and not record[7])) then
  if now > deadline then
    return {'late', now}
  end
  redis.call('HSET', key, 'token', token, 'attempts', attempts + 1, 'lease', digits(now + lease))
  expire()
  return {'taken_over', now}
end
return {'unknown'}
