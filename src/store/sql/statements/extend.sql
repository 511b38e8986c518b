CALL tenant.idempotency_extend($1, $2, $3, $4, NULL)
