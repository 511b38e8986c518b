CALL tenant.idempotency_abandon($1, $2, $3, NULL)
