SELECT user_id, idempotency_key, procedure, request_hash
FROM tenant.idempotency_abandoned($1, make_interval(secs => $2), $3, $4)
