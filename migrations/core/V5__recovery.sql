-- Recovery: finds the reservations of all users whose lease ended without an outcome. A background task lists them
-- here, and then determines the outcome of each as the reservation's owner.

-- Names mean PostgreSQL's own, whatever the role's search_path is. The last statement restores it.
SELECT pg_catalog.set_config('app.idempotency_search_path', pg_catalog.current_setting('search_path'), false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);

-- Returns at most `p_batch` such reservations of these procedures, oldest first: created within `p_lookback` seconds (NULL
-- for no limit) and held by fewer than `p_attempts` calls. The primary key is a UUIDv7, so only rows within `p_lookback`
-- are read. Runs as the owner, with the sight of the recovery.
CREATE OR REPLACE FUNCTION tenant.idempotency_abandoned(
    p_procedures text[],
    p_lookback   double precision,
    p_attempts   integer,
    p_batch      integer
) RETURNS TABLE (
    user_id         uuid,
    idempotency_key uuid,
    procedure       text,
    request_hash    bytea,
    arrival_hash    bytea
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $abandoned$
DECLARE
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    -- In milliseconds since 1970. greatest() ignores NULL.
    v_since CONSTANT bigint := 1000 * greatest(0, date_part('epoch', clock_timestamp()) - p_lookback);
BEGIN
    PERFORM set_config('idempotency.owner', '00000000-0000-0000-0000-000000000000', true),
            set_config('app.current_user_id', '00000000-0000-0000-0000-000000000000', true),
            set_config('app.idempotency_sight', 'recovery', true);

    RETURN QUERY
    SELECT k.user_id, k.idempotency_key, k.procedure, k.request_hash, k.arrival_hash
    FROM tenant.idempotency_keys k
    WHERE k.id >= encode(substring(int8send(v_since) FROM 3) || '\x00000000000000000000', 'hex')::uuid
      AND k.response_bytes IS NULL
      AND k.error_bytes IS NULL
      AND k.lease_expires <= now()
      AND k.expires > now()
      AND k.attempts < p_attempts
      AND k.procedure = ANY (p_procedures)
    ORDER BY k.id
    LIMIT p_batch;

    PERFORM set_config('app.idempotency_sight', '', true),
            set_config('app.current_user_id', v_user, true),
            set_config('idempotency.owner', v_owner, true);
END
$abandoned$;

SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('app.idempotency_search_path'), false);
