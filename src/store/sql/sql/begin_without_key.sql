SELECT tenant.idempotency_limit_idle($3),
       pg_catalog.set_config('idempotency.owner', coalesce($1::pg_catalog.text, ''), true),
       pg_catalog.set_config('app.current_user_id', coalesce($2::pg_catalog.text, ''), true),
       CASE WHEN $4 IS NOT NULL THEN tenant.idempotency_set($4) END,
       pg_catalog.pg_backend_pid() AS pid,
       pg_catalog.date_part('epoch', pg_catalog.now()) AS begun
