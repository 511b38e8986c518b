SELECT * FROM tenant.idempotency_allow($1, $2, $3, $4, $5, $6)
