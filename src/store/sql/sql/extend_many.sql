CALL tenant.idempotency_extend_many($1, $2, $3, $4, NULL)
