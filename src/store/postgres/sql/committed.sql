SELECT tenant.idempotency_committed($1, $2, $3) AS committed
