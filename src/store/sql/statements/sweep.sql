CALL tenant.idempotency_sweep($1, NULL, $2)
