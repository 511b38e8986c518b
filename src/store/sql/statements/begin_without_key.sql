SELECT tenant.idempotency_limit_idle($3),
       tenant.idempotency_set(
           ARRAY['idempotency.owner', coalesce($1::pg_catalog.text, ''), 'app.current_user_id', coalesce($2::pg_catalog.text, '')]
           OPERATOR(pg_catalog.||) $4::pg_catalog.text[]
       ),
       pg_catalog.pg_backend_pid() AS pid,
       pg_catalog.date_part('epoch', pg_catalog.now()) AS begun
