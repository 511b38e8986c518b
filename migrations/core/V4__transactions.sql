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
-- The BEGIN says NOT DEFERRABLE, which fails inside of a transaction that has run a query (SQLSTATE 25001): the connection
-- came with a transaction that someone left open.
--
-- tenant.idempotency_commit depends on the resource types: tenant.idempotency_write_statements creates it.

-- Names mean PostgreSQL's own, whatever the role's search_path is. The last statement restores it.
SELECT pg_catalog.set_config('app.idempotency_search_path', pg_catalog.current_setting('search_path'), false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);

-- Returns a secret of this database, which keeps clients from choosing keys by the numbers of their locks. Made once: old
-- and new servers have to agree on the numbers.
DO $seed$
BEGIN
    IF to_regprocedure('tenant.idempotency_seed()') IS NULL THEN
        EXECUTE format(
            'CREATE FUNCTION tenant.idempotency_seed() RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN decode(%L, ''hex'')',
            encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'hex')
        );
    END IF;
END
$seed$;

-- Returns the number of a key's advisory lock.
CREATE OR REPLACE FUNCTION tenant.idempotency_lock_id(p_user uuid, p_key uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(
    (encode(tenant.idempotency_seed(), 'hex') || p_user::text || p_key::text) COLLATE "C", 0
);

-- Limits how long this transaction may be idle, in seconds, and returns the limit in milliseconds. A shorter limit set in
-- the server is not changed. ('0' is the server's for no limit.) Fails on a standby: a handler would find out at its first write, or
-- not at all.
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

-- Fails: a record is written outside of its transaction (tenant.idempotency_commit, and the client's statement for a key that was free).
CREATE OR REPLACE FUNCTION tenant.idempotency_needs_transaction() RETURNS uuid
LANGUAGE plpgsql AS $needs_transaction$
BEGIN
    RAISE EXCEPTION 'the handler ended the transaction that the layer began for the call; it must not commit or roll back'
        USING ERRCODE = 'TI002', HINT = 'TI002';
END
$needs_transaction$;

-- begin: absent -> held by this transaction. Returns 'acquired' or 'taken_over', the state of the existing row
-- (tenant.idempotency_state), or 'running' if another transaction of the key is open, whatever its request. A late one takes no lock.
-- Writes nothing. Sets for this transaction only: the owner; the application's user and settings; and, if it holds the key, the
-- token, by which tenant.idempotency_commit recognises its transaction; the row that the record may replace; and the time
-- that the transaction may be idle before the server ends it.
CREATE OR REPLACE FUNCTION tenant.idempotency_begin(
    p_user           uuid,
    p_key            uuid,
    p_token          uuid,
    p_procedure      text,
    p_request_hash   bytea,
    p_arrival_hash   bytea,
    p_lease          double precision, -- seconds, of a reservation without a lease
    p_idle           double precision, -- seconds
    p_on_lease_ended text,
    p_on_foreign     text, -- as in tenant.idempotency_claim
    p_resource_type  text,
    p_app_user       uuid, -- the application's user; NULL for none
    p_settings       text[], -- the application's settings (tenant.idempotency_set); NULL for none
    p_until          double precision, -- as in tenant.idempotency_claim
    OUT state              text,
    OUT recorded_procedure text,
    OUT recorded_hash      bytea,
    OUT recorded_arrival   bytea,
    OUT response           bytea,
    OUT metadata           bytea,
    OUT error              bytea,
    OUT resource           text,
    OUT status             text,
    OUT status_error       text,
    OUT lease_left_ms      bigint,
    OUT expires_in_ms      bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $begin$
DECLARE
    v_held CONSTANT boolean := CASE WHEN date_part('epoch', clock_timestamp()) <= p_until
                                    THEN pg_try_advisory_xact_lock(tenant.idempotency_lock_id(p_user, p_key)) END;
    v_foreign_lease interval; -- NULL for none
    v_policy text;
    v_seen text;
    v_set text; -- an assignment costs less than PERFORM
    v_status record;
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    v_set := set_config('idempotency.owner', p_user::text, true)
          || set_config('app.current_user_id', coalesce(p_app_user::text, ''), true);
    IF p_settings IS NOT NULL THEN
        v_set := tenant.idempotency_set(p_settings);
    END IF;

    -- A first call pays for no more than an empty look-up: a query costs by its expressions, evaluated or not.
    PERFORM FROM tenant.idempotency_keys k WHERE k.idempotency_key = p_key AND k.user_id = p_user;
    IF FOUND THEN
        IF p_on_foreign <> 'in_progress' THEN
            v_foreign_lease := make_interval(secs => p_lease);
        END IF;
        SELECT tenant.idempotency_state(k, p_token, v_foreign_lease), k.procedure, k.request_hash, k.arrival_hash,
               k.response_bytes, k.response_metadata, k.error_bytes, tenant.idempotency_resource_id(k),
               tenant.idempotency_milliseconds_until(coalesce(k.lease_expires, k.created + v_foreign_lease, k.expires)),
               tenant.idempotency_milliseconds_until(k.expires),
               CASE WHEN k.lease_expires IS NULL THEN p_on_foreign ELSE p_on_lease_ended END,
               concat(k.id, ' ', k.token)
        INTO state, recorded_procedure, recorded_hash, recorded_arrival, response, metadata, error, resource, lease_left_ms,
             expires_in_ms, v_policy, v_seen
        FROM tenant.idempotency_keys k
        WHERE k.idempotency_key = p_key AND k.user_id = p_user;
    END IF;

    -- The lock's holder may be a replay that has not ended yet, so a final state is returned even without the lock.
    IF v_held IS NULL AND (state IS NULL OR state IN ('expired', 'unknown', 'abandoned')) THEN
        state := 'late';
        RETURN;
    END IF;
    IF NOT v_held AND (state IS NULL OR state IN ('expired', 'unknown', 'abandoned')) THEN
        state := 'running';
        lease_left_ms := 1000 * p_idle;
        RETURN;
    END IF;

    IF state IS NULL THEN
        state := 'acquired';
    ELSIF state = 'expired' THEN
        state := 'acquired';
        v_set := set_config('app.idempotency_seen', v_seen, true);
    ELSIF recorded_procedure = p_procedure
          AND tenant.idempotency_same_request(recorded_hash, recorded_arrival, p_request_hash, p_arrival_hash)
          AND (state = 'abandoned' AND v_policy <> 'refuse' OR state = 'unknown' AND v_policy = 'reconcile') THEN
        -- A reservation left behind by a server in reserved mode.
        state := 'taken_over';
        v_set := set_config('app.idempotency_seen', v_seen, true);
    ELSIF state NOT IN ('acquired', 'taken_over') THEN
        IF state = 'completed' AND resource IS NOT NULL AND p_resource_type IS NOT NULL THEN
            v_status := tenant.idempotency_soft_status(p_resource_type, resource);
            status := v_status.status;
            status_error := v_status.status_error;
        END IF;
        RETURN;
    END IF;

    v_set := set_config('app.idempotency_token', p_token::text, true) || tenant.idempotency_limit_idle(p_idle);
END
$begin$;

-- Returns whether the transaction with this token was committed; NULL while a transaction of the key is open, which may still commit.
-- Fails on a standby, which does not know.
--
-- Looks for the record after the lock, in a transaction whose snapshot has everything that was committed before. In one statement:
-- two may meet two servers, of which one has lost the lock, and the other one has not got the record. An old primary that nobody has
-- fenced has neither, if the transaction was at the new one: so that it does not say no, that answer waits for a synchronous standby.
CREATE OR REPLACE PROCEDURE tenant.idempotency_committed(
    p_user uuid, p_key uuid, p_token uuid, OUT committed boolean
)
LANGUAGE plpgsql AS $committed$
DECLARE
    v_set pg_catalog.text;
    v_ended pg_catalog.bool;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_as(p_user, p_user);
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    v_ended := pg_try_advisory_xact_lock(tenant.idempotency_lock_id(p_user, p_key));
    COMMIT;
    v_set := tenant.idempotency_act_as(p_user, p_user);
    committed := EXISTS (
        SELECT FROM tenant.idempotency_keys k
        WHERE k.idempotency_key = p_key AND k.user_id = p_user AND k.token = p_token
          AND num_nonnulls(k.response_bytes, k.error_bytes) = 1
    );
    IF NOT committed THEN
        IF v_ended THEN
            PERFORM pg_logical_emit_message(true, 'idempotency', '');
        ELSE
            committed := NULL;
        END IF;
    END IF;
END
$committed$;

SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('app.idempotency_search_path'), false);
