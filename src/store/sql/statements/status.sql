CALL tenant.idempotency_status($1, $2, $3, $4, NULL)
