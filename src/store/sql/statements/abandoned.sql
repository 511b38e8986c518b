SELECT user_id, idempotency_key, procedure, request_hash, arrival_hash, reached
FROM tenant.idempotency_abandoned($1, $2, $3, $4, $5, $6)
