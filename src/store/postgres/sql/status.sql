SELECT tenant.idempotency_status($1, $2, $3) AS status
