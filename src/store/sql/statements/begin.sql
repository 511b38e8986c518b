SELECT *, pg_catalog.pg_backend_pid() AS pid, pg_catalog.date_part('epoch', pg_catalog.now()) AS begun
FROM tenant.idempotency_begin($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
