-- The look-up: what became of a call, without a call of its procedure. Changes nothing, and takes no lock of a key: a call that
-- begins meanwhile does not notice it. As the other procedures (V2), it is one statement for the client, a transaction of its
-- own, and runs with the caller's privileges, under row-level security, as the owner in its first parameter.

-- Names mean PostgreSQL's own, whatever the role's search_path is. The last statement restores it.
SELECT pg_catalog.set_config('app.idempotency_search_path', pg_catalog.current_setting('search_path'), false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);

-- Returns a time in microseconds since 1970, limited to the years that protobuf's timestamps have.
CREATE OR REPLACE FUNCTION tenant.idempotency_microseconds(p_time timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN p_time IS NULL THEN NULL
    ELSE floor(1000000 * greatest(0, least(253402300799, date_part('epoch', p_time))))
END;

-- look_up: returns the state of a key, and what is recorded of its call:
--
--   absent     there is no record
--   running    a call holds the key: with a lease that has not ended, or in an open transaction
--   completed  the call succeeded, also if its response was too large to store
--   failed     the call ended with an error that is recorded
--   unknown    the lease of the call ended without an outcome, or it is not known whether the call took effect
--   expired    there is a record, and its retention has passed
--
-- A reservation of the Go interceptor, which has no lease, is running until it expires. Of a call in a transaction that took
-- no earlier call over, only the beginning of the transaction is known: its procedure is recorded with its outcome. Not even that if
-- the connections log in as another role than they use (SET ROLE), which may not see it.
--
-- The row is read again after the locks: a transaction that has committed in between is seen by its record. On a standby it
-- fails (tenant.idempotency_needs_primary).
CREATE OR REPLACE PROCEDURE tenant.idempotency_look_up(
    p_user      uuid,
    p_key       uuid,
    p_status_of text[], -- the types of resources whose status to look up; NULL for none
    p_app_user  uuid, -- the application's user, for the look-up of the status; NULL for none
    p_settings  text[], -- the application's settings, for the same (tenant.idempotency_set); NULL for none
    OUT state         text,
    OUT procedure     text,
    OUT created       bigint, -- all times in microseconds (tenant.idempotency_microseconds)
    OUT completed     bigint,
    OUT expires       bigint,
    OUT resource_type text, -- that and the next only of a completed call
    OUT resource      text,
    OUT status        text,
    OUT status_error  text
)
LANGUAGE plpgsql AS $look_up$
DECLARE
    v_set pg_catalog.text; -- an assignment costs less than PERFORM
    v_holder pg_catalog.int4; -- the process that holds the key in a transaction
    v_status record;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_as(p_user, p_app_user);
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    IF p_settings IS NOT NULL THEN
        v_set := tenant.idempotency_set(p_settings);
    END IF;

    FOR v_round IN 1..2 LOOP
        SELECT tenant.idempotency_state(k, NULL, NULL), k.procedure, tenant.idempotency_microseconds(k.created),
               tenant.idempotency_microseconds(k.completed), tenant.idempotency_microseconds(k.expires),
               tenant.idempotency_resource_type(k), tenant.idempotency_resource_id(k)
        INTO state, procedure, created, completed, expires, resource_type, resource
        FROM tenant.idempotency_keys k
        WHERE k.idempotency_key = p_key AND k.user_id = p_user;

        EXIT WHEN v_round = 2 OR state IN ('completed', 'not_stored', 'failed', 'reserved');
        v_holder := tenant.idempotency_holder_pid(tenant.idempotency_lock_id(p_user, p_key));
    END LOOP;

    IF state IN ('completed', 'not_stored') THEN
        state := 'completed';
        IF resource_type = ANY (p_status_of) THEN
            v_status := tenant.idempotency_soft_status(resource_type, resource);
            status := v_status.status;
            status_error := v_status.status_error;
        END IF;
        RETURN;
    END IF;
    resource_type := NULL;
    resource := NULL;
    IF state = 'reserved' THEN
        state := 'running';
    ELSIF state IS DISTINCT FROM 'failed' AND v_holder IS NOT NULL THEN
        IF state IS NULL OR state = 'expired' THEN
            procedure := NULL;
            expires := NULL;
            completed := NULL;
            created := (
                SELECT tenant.idempotency_microseconds(a.xact_start) FROM pg_stat_get_activity(v_holder) a
            );
        END IF;
        state := 'running';
    ELSIF state = 'abandoned' THEN
        state := 'unknown';
    END IF;
    state := coalesce(state, 'absent');
END
$look_up$;

REVOKE EXECUTE ON ROUTINE
    tenant.idempotency_microseconds(timestamptz),
    tenant.idempotency_look_up(uuid, uuid, text[], uuid, text[])
FROM PUBLIC;

SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('app.idempotency_search_path'), false);
