-- What follows a look beside the transaction sets nothing on the nodes of Citus: there it is looked at inside.
SELECT CASE WHEN t.held AND NOT ($8 AND pg_catalog.current_setting('citus.propagate_set_commands', true) IS NULL)
            THEN tenant.idempotency_is_free($1, $2)
            ELSE coalesce(t.held, false)
       END AS is_free,
       pg_catalog.pg_backend_pid() AS pid,
       pg_catalog.date_part('epoch', pg_catalog.now()) AS begun
FROM (
    SELECT pg_catalog.set_config('idempotency.owner', $1::pg_catalog.text, true),
           pg_catalog.set_config('app.current_user_id', coalesce($5::pg_catalog.uuid::pg_catalog.text, ''), true),
           pg_catalog.set_config('app.idempotency_token', $3::pg_catalog.uuid::pg_catalog.text, true),
           CASE WHEN $6::pg_catalog.text[] IS NOT NULL THEN pg_catalog.set_config(($6)[1], ($6)[2], true) END,
           CASE WHEN ($6)[3] IS NOT NULL THEN pg_catalog.set_config(($6)[3], ($6)[4], true) END,
           tenant.idempotency_limit_idle($4),
           CASE WHEN pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.<=) $7
                THEN pg_catalog.pg_try_advisory_xact_lock(tenant.idempotency_lock_id($1, $2))
           END AS held
    OFFSET 0
) t
