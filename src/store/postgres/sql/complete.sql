SELECT tenant.idempotency_complete($1, $2, $3, $4, $5, $6, $7, make_interval(secs => $8), $9, $10) AS outcome
