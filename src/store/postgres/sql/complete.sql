SELECT tenant.idempotency_complete($1, $2, $3, $4, $5, $6, make_interval(secs => $7), $8, $9) AS outcome
