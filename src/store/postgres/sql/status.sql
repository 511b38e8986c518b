CALL tenant.idempotency_status($1, $2, $3, NULL)
