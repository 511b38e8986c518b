SELECT tenant.idempotency_sweep($1) AS deleted
