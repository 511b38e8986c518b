SELECT tenant.idempotency_extend($1, $2, $3, make_interval(secs => $4)) AS extended
