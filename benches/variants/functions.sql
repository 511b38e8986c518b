-- The lock variant as functions, one call each to begin and to commit: what would be a migration if it is chosen.

CREATE SCHEMA variants;
GRANT USAGE ON SCHEMA variants TO variants_api;

-- Who the transaction belongs to, its locks, and what is recorded for the key. READ COMMITTED: the look sees what was
-- committed before the lock was had.
CREATE FUNCTION variants.begin(
    p_user uuid, p_key uuid, p_token uuid, p_procedure text, p_request text
) RETURNS TABLE (state text, recorded_procedure text, recorded_hash bytea, response bytea)
LANGUAGE plpgsql AS $begin$
BEGIN
    PERFORM set_config('app.current_user_id', p_user::text, true),
            set_config('app.idempotency_token', p_token::text, true),
            set_config('idle_in_transaction_session_timeout', '60s', true);

    PERFORM pg_advisory_xact_lock_shared(1, hashtext(p_procedure || p_request));
    IF NOT pg_try_advisory_xact_lock(hashtextextended(p_user::text || p_key, 0)) THEN
        state := 'in_flight';
        RETURN NEXT;
        RETURN;
    END IF;

    SELECT 'recorded', k.procedure, k.request_hash, k.response_bytes
    INTO state, recorded_procedure, recorded_hash, response
    FROM tenant.idempotency_keys k
    WHERE k.idempotency_key = p_key AND k.user_id = p_user;
    IF NOT FOUND THEN
        state := 'acquired';
    END IF;
    RETURN NEXT;
END
$begin$;

-- The record. Where somebody else's is there already it raises, so that a COMMIT in the same round trip rolls back. The
-- statement is made for the column it is told, and planned each time.
CREATE FUNCTION variants.commit(
    p_user uuid, p_key uuid, p_procedure text, p_request_hash bytea, p_response bytea, p_retention interval,
    p_resource_column text, p_resource uuid
) RETURNS void
LANGUAGE plpgsql AS $commit$
DECLARE
    v_rows bigint;
BEGIN
    EXECUTE format(
        $insert$
        INSERT INTO tenant.idempotency_keys
            (idempotency_key, user_id, procedure, request_hash, response_bytes, token, expires %s)
        VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() + $7 %s)
        ON CONFLICT (idempotency_key, user_id) DO NOTHING
        $insert$,
        CASE WHEN p_resource_column IS NULL THEN '' ELSE format(', %I', p_resource_column) END,
        CASE WHEN p_resource_column IS NULL THEN '' ELSE ', $8' END
    )
    USING p_key, p_user, p_procedure, p_request_hash, p_response,
        current_setting('app.idempotency_token')::uuid, p_retention, p_resource;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows = 0 THEN
        RAISE EXCEPTION 'somebody else has recorded an outcome for this key' USING ERRCODE = 'unique_violation';
    END IF;
END
$commit$;

-- The same with the statement written out, so that its plan is kept: for one column, as the registration of a resource
-- type would have to write it.
CREATE FUNCTION variants.commit_static(
    p_user uuid, p_key uuid, p_procedure text, p_request_hash bytea, p_response bytea, p_retention interval,
    p_resource uuid
) RETURNS void
LANGUAGE plpgsql AS $commit$
BEGIN
    INSERT INTO tenant.idempotency_keys
        (idempotency_key, user_id, procedure, request_hash, response_bytes, token, expires, project_id)
    VALUES
        (p_key, p_user, p_procedure, p_request_hash, p_response, current_setting('app.idempotency_token')::uuid,
         clock_timestamp() + p_retention, p_resource)
    ON CONFLICT (idempotency_key, user_id) DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'somebody else has recorded an outcome for this key' USING ERRCODE = 'unique_violation';
    END IF;
END
$commit$;
