SELECT tenant.idempotency_limit_idle($2),
       set_config('app.current_user_id', coalesce($1::uuid::text, ''), true)
