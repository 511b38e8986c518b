CALL tenant.idempotency_release_many($1, $2, $3, NULL)
