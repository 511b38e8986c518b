-- Transactional mode: the complete record is inserted in the handler's own transaction, and committed with the
-- handler's writes. It takes two statements, sent together with BEGIN and with COMMIT: one network round trip each.
--
--   BEGIN;  lock, look   ->  the handler's statements  ->  record;  COMMIT
--
-- For a key that is free, both are plain statements of the client, take.sql and record.sql. For any other key the client asks
-- tenant.idempotency_begin after the first, and writes the record with tenant.idempotency_commit.
--
-- An advisory lock excludes concurrent calls. It ends with the transaction, however the transaction ends. No call waits
-- for it; a call that gets it knows that no other transaction of the key is open.
--
-- With the BEGIN goes a query that fails in a transaction that was left open on the connection (SQLSTATE 25001): within one message of
-- simple queries, transaction_timestamp() = statement_timestamp() exactly if the message's BEGIN began the transaction.

-- Limits how long this transaction may be idle, in seconds, and returns the limit in milliseconds. A shorter limit set in
-- the server is not changed. ('0' is the server's for no limit.) Fails on a standby: a handler would find out at its first write, or
-- not at all. Called by the client's plain look at a key, and by tenant.idempotency_begin.
CREATE OR REPLACE FUNCTION tenant.idempotency_limit_idle(p_limit double precision) RETURNS text
LANGUAGE sql VOLATILE
RETURN CASE
    WHEN current_setting('transaction_read_only') = 'on' THEN tenant.idempotency_needs_primary()
    ELSE set_config(
        'idle_in_transaction_session_timeout',
        greatest(1, ceil(1000 * least(
            p_limit,
            2147483.647,
            CASE WHEN current_setting('idle_in_transaction_session_timeout') <> '0'
                 THEN date_part('epoch', current_setting('idle_in_transaction_session_timeout')::interval)
            END
        )))::bigint::text,
        true
    )
END;

-- Returns whether a key has no record: the common case of tenant.idempotency_begin. The client's statement calls it after it has got the
-- key's lock: its query has a snapshot of its own, which has all that was committed before, at READ COMMITTED. (Of an SQL function the
-- query would be planned anew in each statement. Of a partitioned table it would be without the sub-select.)
CREATE OR REPLACE FUNCTION tenant.idempotency_is_free(p_user uuid, p_key uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $is_free$
BEGIN
    RETURN NOT EXISTS (
        SELECT FROM tenant.idempotency_keys k
        WHERE k.idempotency_key OPERATOR(pg_catalog.=) p_key AND k.user_id OPERATOR(pg_catalog.=) (SELECT p_user)
    );
END
$is_free$;

-- Fails: a record is written outside of its transaction. Called by tenant.idempotency_commit, and by the client's plain record.
CREATE OR REPLACE FUNCTION tenant.idempotency_needs_transaction() RETURNS uuid
LANGUAGE plpgsql AS $needs_transaction$
BEGIN
    RAISE EXCEPTION 'the handler ended the transaction that the layer began for the call; it must not commit or roll back'
        USING ERRCODE = 'TI002', HINT = 'TI002';
END
$needs_transaction$;

-- Takes the lock of a key, and reads its row: for tenant.idempotency_begin, which calls it. `seen` is the row that the record may replace.
-- A look, whose time is '-Infinity', takes no lock: otherwise the transaction that follows would meet that lock until the look has been
-- rolled back.
CREATE OR REPLACE FUNCTION tenant.idempotency_begin_row(
    p_user uuid, p_key uuid, p_token uuid, p_procedure text, p_request_hash bytea, p_arrival_hash bytea, p_lease double precision,
    p_idle double precision, p_on_lease_ended text, p_on_foreign text, p_until double precision,
    OUT state text, OUT recorded_procedure text, OUT recorded_hash bytea, OUT recorded_arrival bytea, OUT response bytea,
    OUT metadata bytea, OUT error bytea, OUT resource text, OUT lease_left_ms bigint, OUT expires_in_ms bigint, OUT seen text
)
LANGUAGE plpgsql AS $begin_row$
DECLARE
    v_lock CONSTANT bigint := tenant.idempotency_lock_id(p_user, p_key);
    v_held CONSTANT boolean := CASE WHEN p_until = '-Infinity' THEN tenant.idempotency_holder(v_lock) IS NULL
                                    WHEN date_part('epoch', clock_timestamp()) <= p_until THEN pg_try_advisory_xact_lock(v_lock) END;
    v_foreign_lease CONSTANT interval := CASE WHEN p_on_foreign <> 'in_progress' THEN make_interval(secs => p_lease) END;
    v_set text; -- an assignment costs less than PERFORM
    v_now timestamptz;
    k record;
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    SELECT x.* INTO k FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user;
    v_now := clock_timestamp();
    IF k.id IS NOT NULL THEN
        state := tenant.idempotency_state(k, p_token, v_foreign_lease, v_now);
        recorded_procedure := k.procedure;
        recorded_hash := k.request_hash;
        recorded_arrival := k.arrival_hash;
        response := k.response_bytes;
        metadata := k.response_metadata;
        error := k.error_bytes;
        resource := tenant.idempotency_resource_id(k);
        lease_left_ms := tenant.idempotency_milliseconds_until(coalesce(k.lease_expires, k.created + v_foreign_lease, k.expires), v_now);
        expires_in_ms := tenant.idempotency_milliseconds_until(k.expires, v_now);
    END IF;

    IF v_held IS NOT TRUE AND (state IS NULL OR state IN ('expired', 'unknown', 'abandoned')) THEN
        -- The lock's holder may be a replay that has not ended yet, so a final state is returned even without the lock.
        state := CASE WHEN v_held IS NULL THEN 'late' ELSE 'running' END;
        lease_left_ms := 1000 * p_idle;
    ELSIF state IS NULL THEN
        state := 'acquired';
    ELSIF state = 'expired' THEN
        state := 'acquired';
        seen := concat(k.id, ' ', k.token);
    ELSIF state IN ('abandoned', 'unknown')
          AND k.procedure = p_procedure
          AND tenant.idempotency_same_request(k.request_hash, k.arrival_hash, p_request_hash, p_arrival_hash)
          AND tenant.idempotency_may_take_over(
              k.lease_expires, k.created, k.outcome_unknown, v_now - v_foreign_lease, p_on_lease_ended, p_on_foreign, v_now) THEN
        -- A reservation left behind by a server in reserved mode.
        state := 'taken_over';
        seen := concat(k.id, ' ', k.token);
    END IF;
END
$begin_row$;

-- begin: absent -> held by this transaction. Returns 'acquired' or 'taken_over', the state of the existing row
-- (tenant.idempotency_state), or 'running' if another transaction of the key is open, whatever its request. A late one takes no lock, and
-- neither does a look, which says what a call would meet now.
-- Writes nothing. Sets for this transaction only: the owner; the application's user and settings; and, if it holds the key, the
-- token, by which tenant.idempotency_commit recognises its transaction; the row that the record may replace; and the time
-- that the transaction may be idle before the server ends it. Called by the store in transactional mode for each key that is not free.
CREATE OR REPLACE FUNCTION tenant.idempotency_begin(
    p_user uuid, p_key uuid, p_token uuid, p_procedure text, p_request_hash bytea, p_arrival_hash bytea,
    p_lease          double precision, -- seconds, of a reservation without a lease
    p_idle           double precision, -- seconds
    p_on_lease_ended text,
    p_on_foreign     text, -- as in tenant.idempotency_claim
    p_resource_type text,
    p_app_user       uuid, -- the application's user; NULL for none
    p_settings       text[], -- the application's settings (tenant.idempotency_set); NULL for none
    p_until          double precision, -- as in tenant.idempotency_claim; '-Infinity' for a look
    OUT state text, OUT recorded_procedure text, OUT recorded_hash bytea, OUT recorded_arrival bytea, OUT response bytea,
    OUT metadata bytea, OUT error bytea, OUT resource text, OUT status text, OUT status_error text, OUT lease_left_ms bigint,
    OUT expires_in_ms bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $begin$
DECLARE
    v_set text;
    v_found record;
    v_status record;
BEGIN
    v_set := tenant.idempotency_act_for(p_user, p_app_user);
    IF p_settings IS NOT NULL THEN
        v_set := tenant.idempotency_set(p_settings);
    END IF;
    v_found := tenant.idempotency_begin_row(
        p_user, p_key, p_token, p_procedure, p_request_hash, p_arrival_hash, p_lease, p_idle, p_on_lease_ended, p_on_foreign, p_until
    );
    state := v_found.state;
    recorded_procedure := v_found.recorded_procedure;
    recorded_hash := v_found.recorded_hash;
    recorded_arrival := v_found.recorded_arrival;
    response := v_found.response;
    metadata := v_found.metadata;
    error := v_found.error;
    resource := v_found.resource;
    lease_left_ms := v_found.lease_left_ms;
    expires_in_ms := v_found.expires_in_ms;

    IF state IN ('acquired', 'taken_over') THEN
        v_set := set_config('app.idempotency_token', p_token::text, true)
              || set_config('app.idempotency_seen', coalesce(v_found.seen, ''), true)
              || tenant.idempotency_limit_idle(p_idle);
    ELSIF state IN ('completed', 'not_stored') AND resource IS NOT NULL AND p_resource_type IS NOT NULL THEN
        v_status := tenant.idempotency_soft_status(p_resource_type, resource);
        status := v_status.status;
        status_error := v_status.status_error;
    END IF;
END
$begin$;

-- Inserts the complete record, or replaces the row that was seen, if it has not changed: for tenant.idempotency_commit, which calls it.
-- Its tenant.idempotency_insert_record has a column for each resource type: tenant.idempotency_write_statements makes it.
CREATE OR REPLACE FUNCTION tenant.idempotency_commit_row(
    p_user uuid, p_key uuid, p_token uuid, p_procedure text, p_request_hash bytea, p_arrival_hash bytea, p_lease double precision,
    p_on_lease_ended text, p_on_foreign text, p_response bytea, p_not_stored boolean, p_error bytea, p_metadata bytea,
    p_retention double precision, p_resource_column text, p_resource text, p_id uuid, p_seen text
) RETURNS boolean
LANGUAGE plpgsql AS $commit_row$
DECLARE
    v_now timestamptz;
    v_foreign_before timestamptz;
BEGIN
    FOR v_round IN 1..2 LOOP
        IF tenant.idempotency_insert_record(
            p_user, p_key, p_token, p_procedure, p_request_hash, p_arrival_hash, p_response, p_not_stored, p_error, p_metadata, p_retention,
            p_resource_column, p_resource, p_id
        ) THEN
            RETURN true;
        END IF;
        v_now := clock_timestamp();
        v_foreign_before := v_now - make_interval(secs => p_lease);
        DELETE FROM tenant.idempotency_keys x
        WHERE x.idempotency_key = p_key
          AND x.user_id = p_user
          AND x.id::text || ' ' || coalesce(x.token::text, '') = p_seen
          AND (x.expires <= v_now
               OR (x.response_bytes IS NULL
                   AND x.error_bytes IS NULL
                   AND x.procedure = p_procedure
                   AND tenant.idempotency_same_request(x.request_hash, x.arrival_hash, p_request_hash, p_arrival_hash)
                   AND tenant.idempotency_may_take_over(
                       x.lease_expires, x.created, x.outcome_unknown, v_foreign_before, p_on_lease_ended, p_on_foreign, v_now)));
        -- Also if there was none to delete: the row may have gone since.
    END LOOP;

    RAISE EXCEPTION 'another call with this idempotency key was recorded or has reserved the key'
        USING ERRCODE = 'TI001', HINT = 'TI001';
END
$commit_row$;

-- commit: inserts the complete record. Replaces the row that tenant.idempotency_begin took over or found expired, if it
-- has not changed. If the call must not take effect, raises an error, so that the COMMIT that follows rolls back: TI001
-- if another call has recorded or reserved the key, TI002 if this is not the transaction that tenant.idempotency_begin
-- ran in. The hint is the SQLSTATE again, for client libraries that do not tell it. Called by the store in transactional mode for each
-- key that was not free.
CREATE OR REPLACE FUNCTION tenant.idempotency_commit(
    p_user uuid, p_key uuid, p_token uuid, p_procedure text, p_request_hash bytea, p_arrival_hash bytea,
    p_lease           double precision, -- seconds
    p_on_lease_ended text, p_on_foreign text, p_response bytea, p_not_stored boolean,
    p_error           bytea, -- instead of a response
    p_metadata        bytea, -- with a response; NULL for none
    p_retention       double precision, -- seconds
    p_resource_column text, -- NULL for none
    p_resource text,
    p_id              uuid -- of the record: a UUIDv7. The client makes it for less than the server
) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $commit$
DECLARE
    v_seen CONSTANT text := coalesce(current_setting('app.idempotency_seen', true), '');
    v_set text; -- an assignment costs less than PERFORM
    v_done boolean;
BEGIN
    IF current_setting('app.idempotency_token', true) IS DISTINCT FROM p_token::text THEN
        v_set := tenant.idempotency_needs_transaction();
    END IF;
    -- The handler may have changed it.
    v_set := tenant.idempotency_set(ARRAY['idempotency.owner', p_user::text]);
    v_done := tenant.idempotency_commit_row(
        p_user, p_key, p_token, p_procedure, p_request_hash, p_arrival_hash, p_lease, p_on_lease_ended, p_on_foreign, p_response,
        p_not_stored, p_error, p_metadata, p_retention, p_resource_column, p_resource, p_id, v_seen
    );
END
$commit$;

-- Looks for the record after the lock, by a statement of its own: for tenant.idempotency_committed, which calls it.
CREATE OR REPLACE FUNCTION tenant.idempotency_committed_row(p_user uuid, p_key uuid, p_token uuid, OUT committed boolean)
LANGUAGE plpgsql AS $committed_row$
DECLARE
    v_set text;
    v_ended boolean;
    k record;
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    v_ended := pg_try_advisory_xact_lock(tenant.idempotency_lock_id(p_user, p_key));
    SELECT x.* INTO k FROM tenant.idempotency_keys x
    WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.token = p_token;
    committed := num_nonnulls(k.response_bytes, k.error_bytes) = 1;
    IF NOT committed THEN
        IF v_ended THEN
            PERFORM pg_logical_emit_message(true, 'idempotency', '');
        ELSE
            committed := NULL;
        END IF;
    END IF;
END
$committed_row$;

-- Returns whether the transaction with this token was committed; NULL while a transaction of the key is open, which may still commit.
-- Fails on a standby, which does not know. Called by the store when the answer to a COMMIT is lost.
--
-- The look has a snapshot that is newer than the lock, which READ COMMITTED gives each statement. Both are in one call, because two calls
-- may meet two servers: one that has lost the lock, and one that has not received the record. An old primary that was not fenced has
-- neither, if the transaction was on the new one. So the answer "no" waits for a synchronous standby.
CREATE OR REPLACE PROCEDURE tenant.idempotency_committed(p_user uuid, p_key uuid, p_token uuid, OUT committed boolean)
LANGUAGE plpgsql AS $committed$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    v_set := tenant.idempotency_act_as(p_user, p_user);
    committed := tenant.idempotency_committed_row(p_user, p_key, p_token);
END
$committed$;
