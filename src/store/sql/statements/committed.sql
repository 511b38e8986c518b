CALL tenant.idempotency_committed($1, $2, $3, NULL)
