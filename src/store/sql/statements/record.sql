INSERT INTO tenant.idempotency_keys
    (id, idempotency_key, user_id, token, procedure, request_hash, arrival_hash, response_bytes, response_not_stored, error_bytes,
     response_metadata, completed, expires{column})
VALUES (
    $1, $2, CASE WHEN pg_catalog.set_config('idempotency.owner', $3::pg_catalog.uuid::pg_catalog.text, true) IS NOT NULL THEN $3 END,
    CASE WHEN pg_catalog.current_setting('app.idempotency_token', true) OPERATOR(pg_catalog.=) $4::pg_catalog.uuid::pg_catalog.text THEN $4
         ELSE tenant.idempotency_needs_transaction() END,
    $5, $6, $7, $8, $9, $10, $11, pg_catalog.clock_timestamp(),
    pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) pg_catalog.make_interval(secs => $12){resource}
)
