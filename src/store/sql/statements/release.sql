CALL tenant.idempotency_release($1, $2, $3, NULL)
