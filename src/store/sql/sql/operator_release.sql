SELECT outcome FROM tenant.idempotency_operator_release($1, $2, $3, NULL, $4)
