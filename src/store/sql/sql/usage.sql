SELECT * FROM tenant.idempotency_usage($1, $2, $3)
