-- Recovery: finds the reservations of all users whose lease ended without an outcome. A background task lists them
-- here, and then determines the outcome of each as the reservation's user.

DROP POLICY IF EXISTS idempotency_keys_recovery_policy ON tenant.idempotency_keys;
CREATE POLICY idempotency_keys_recovery_policy ON tenant.idempotency_keys
    FOR SELECT
    USING (
        response_bytes IS NULL
        AND error_bytes IS NULL
        AND lease_expires <= now()
        AND current_setting('app.idempotency_recovery', true) = 'on'
    );

-- Returns at most `p_batch` such reservations of these procedures, oldest first: created within `p_lookback` (NULL for
-- no limit) and held by fewer than `p_attempts` calls. The primary key is a UUIDv7, so only rows within `p_lookback`
-- are read.
CREATE OR REPLACE FUNCTION tenant.idempotency_abandoned(
    p_procedures text[],
    p_lookback   interval,
    p_attempts   integer,
    p_batch      integer
) RETURNS TABLE (
    user_id         uuid,
    idempotency_key uuid,
    procedure       text,
    request_hash    bytea
)
LANGUAGE plpgsql AS $abandoned$
DECLARE
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    v_since CONSTANT uuid := CASE
        WHEN p_lookback IS NULL THEN '00000000-0000-0000-0000-000000000000'
        ELSE encode(
            substring(int8send((extract(epoch FROM clock_timestamp() - p_lookback) * 1000)::bigint) FROM 3)
            || '\x00000000000000000000',
            'hex'
        )
    END::uuid;
BEGIN
    PERFORM set_config('app.current_user_id', '00000000-0000-0000-0000-000000000000', true),
            set_config('app.idempotency_recovery', 'on', true);

    RETURN QUERY
    SELECT k.user_id, k.idempotency_key, k.procedure, k.request_hash
    FROM tenant.idempotency_keys k
    WHERE k.id >= v_since
      AND k.response_bytes IS NULL
      AND k.error_bytes IS NULL
      AND k.lease_expires <= now()
      AND k.expires > now()
      AND k.attempts < p_attempts
      AND k.procedure = ANY (p_procedures)
    ORDER BY k.id
    LIMIT p_batch;

    PERFORM set_config('app.idempotency_recovery', 'off', true),
            set_config('app.current_user_id', v_user, true);
END
$abandoned$;
