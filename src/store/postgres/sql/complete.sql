SELECT tenant.idempotency_complete($1, $2, $3, $4, $5, make_interval(secs => $6), $7, $8) AS outcome
