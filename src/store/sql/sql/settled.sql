CALL tenant.idempotency_settled($1, $2, NULL)
