SELECT tenant.idempotency_limit_idle($2),
       pg_catalog.set_config('app.current_user_id', coalesce($1::pg_catalog.text, ''), true)
