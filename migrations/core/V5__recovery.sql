-- Recovery: finds the reservations of all users whose lease ended without an outcome. A background task lists them
-- here, and then determines the outcome of each as the reservation's owner.

-- Names mean PostgreSQL's own, whatever the role's search_path is. The last statement restores it.
SELECT pg_catalog.set_config('app.idempotency_search_path', pg_catalog.current_setting('search_path'), false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);

-- Returns at most `p_batch` such reservations of these procedures, oldest first: created within `p_lookback` seconds (NULL
-- for no limit) and held by fewer than `p_attempts` calls. The primary key is a UUIDv7, so only rows within `p_lookback`
-- are read. Runs as the owner, with the sight of the recovery.
--
-- Reads for `p_seconds` at most. If there is more to read, the last row has nothing but `reached`: where the next page begins, `p_after`. A
-- page is of rows of the index, not of reservations, which may be a few among millions of outcomes. (As in the sweep, V2, the planner would
-- rather read and sort the whole table.)
CREATE OR REPLACE FUNCTION tenant.idempotency_abandoned(
    p_procedures text[],
    p_lookback   double precision,
    p_attempts   integer,
    p_batch      integer,
    p_after      uuid, -- NULL for the first page
    p_seconds    double precision
) RETURNS TABLE (
    user_id         uuid,
    idempotency_key uuid,
    procedure       text,
    request_hash    bytea,
    arrival_hash    bytea,
    reached         uuid
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_sort = off
SET enable_seqscan = off
SET jit = off AS $abandoned$
DECLARE
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    v_ends CONSTANT timestamptz := clock_timestamp() + make_interval(secs => p_seconds);
    -- In milliseconds since 1970. greatest() ignores NULL.
    v_since CONSTANT bigint := 1000 * greatest(0, date_part('epoch', clock_timestamp()) - p_lookback);
    v_after uuid := coalesce(p_after, encode(substring(int8send(v_since) FROM 3) || decode('00000000000000000000', 'hex'), 'hex')::uuid);
    v_last uuid;
    v_left integer := p_batch;
    v_rows integer;
BEGIN
    PERFORM tenant.idempotency_needs_sight('idempotency_keys_recovery_policy');
    PERFORM set_config('idempotency.owner', '00000000-0000-0000-0000-000000000000', true),
            set_config('app.current_user_id', '00000000-0000-0000-0000-000000000000', true),
            set_config('app.idempotency_sight', 'recovery', true);

    WHILE v_left > 0 LOOP
        v_last := (
            SELECT p.id FROM (
                SELECT k.id FROM tenant.idempotency_keys k WHERE k.id > v_after ORDER BY k.id LIMIT 5000
            ) p
            ORDER BY p.id DESC LIMIT 1
        );
        EXIT WHEN v_last IS NULL;

        RETURN QUERY
        SELECT k.user_id, k.idempotency_key, k.procedure, k.request_hash, k.arrival_hash, NULL::uuid
        FROM tenant.idempotency_keys k
        WHERE k.id > v_after
          AND k.id <= v_last
          AND k.response_bytes IS NULL
          AND k.error_bytes IS NULL
          AND k.lease_expires <= now()
          AND k.expires > now()
          AND k.attempts < p_attempts
          AND k.procedure = ANY (p_procedures)
        ORDER BY k.id
        LIMIT v_left;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_left := v_left - v_rows;
        v_after := v_last;

        IF v_left > 0 AND clock_timestamp() > v_ends THEN
            RETURN QUERY SELECT NULL::uuid, NULL::uuid, NULL::text, NULL::bytea, NULL::bytea, v_last;
            EXIT;
        END IF;
    END LOOP;

    PERFORM set_config('app.idempotency_sight', '', true),
            set_config('app.current_user_id', v_user, true),
            set_config('idempotency.owner', v_owner, true);
END
$abandoned$;

SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('app.idempotency_search_path'), false);
