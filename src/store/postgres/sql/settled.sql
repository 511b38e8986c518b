SELECT tenant.idempotency_settled($1, $2) AS settled
