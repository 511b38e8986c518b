-- Transactional mode: the complete record is inserted in the handler's own transaction, and committed with the
-- handler's writes. It takes two functions, sent together with BEGIN and with COMMIT: one network round trip each.
--
--   BEGIN;  tenant.idempotency_begin   →  the handler's statements  →  tenant.idempotency_commit;  COMMIT
--
-- An advisory lock excludes concurrent calls. It ends with the transaction, however the transaction ends. No call waits
-- for it; a call that gets it knows that no other transaction of the key is open.

-- Returns the number of a key's advisory lock.
CREATE OR REPLACE FUNCTION tenant.idempotency_lock_id(p_user uuid, p_key uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN uuid_hash_extended(p_key, uuid_hash_extended(p_user, 7595143431986737263));

-- Returns the number of a request's advisory lock, which a transaction also holds, as a shared lock of class 1768187245
-- ("idem" in ASCII). It tells other calls which request the transaction runs: the upper half identifies the procedure,
-- the lower half the request.
CREATE OR REPLACE FUNCTION tenant.idempotency_request_id(p_procedure text, p_request_hash bytea) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ((hashtext(p_procedure) & 65535) << 16) | (get_byte(p_request_hash, 0) << 8) | get_byte(p_request_hash, 1);

-- Compares p_request with the request of the transaction that holds a key's lock: 'running' if they are the same,
-- 'running_procedure' or 'running_request' for the part that differs; 'running' if it cannot be determined. Reads
-- pg_locks only once: between two reads, a connection may have moved on to another key's transaction.
CREATE OR REPLACE FUNCTION tenant.idempotency_holder(p_lock bigint, p_request integer) RETURNS text
LANGUAGE sql VOLATILE AS $holder$
    WITH locks AS MATERIALIZED (
        SELECT l.pid, l.classid, l.objid, l.objsubid
        FROM pg_locks l
        WHERE l.locktype = 'advisory'
          AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
          AND l.granted
    )
    SELECT coalesce(min(
        CASE
            WHEN theirs.request = p_request THEN 'running'
            WHEN theirs.request >> 16 <> p_request >> 16 THEN 'running_procedure'
            ELSE 'running_request'
        END
    ), 'running')
    FROM locks l
    JOIN locks r ON r.pid = l.pid AND r.objsubid = 2 AND r.classid = 1768187245
    CROSS JOIN LATERAL (SELECT r.objid::bigint::bit(32)::integer AS request) theirs
    WHERE l.objsubid = 1
      AND l.classid = ((p_lock >> 32) & 4294967295)::oid
      AND l.objid = (p_lock & 4294967295)::oid
$holder$;

-- begin: absent → held by this transaction. Returns 'acquired' or 'taken_over', the state of the existing row
-- (tenant.idempotency_state), or, if another transaction of the key is open, the result of tenant.idempotency_holder.
-- Writes nothing. Sets for this transaction only: the user; the token, by which tenant.idempotency_commit recognises
-- its transaction; the row that the record may replace; and the lease, as the time that the transaction may be idle
-- before the server ends it.
CREATE OR REPLACE FUNCTION tenant.idempotency_begin(
    p_user           uuid,
    p_key            uuid,
    p_token          uuid,
    p_procedure      text,
    p_request_hash   bytea,
    p_lease          double precision, -- seconds
    p_on_lease_ended text,
    p_resource_type  text,
    OUT state              text,
    OUT recorded_procedure text,
    OUT recorded_hash      bytea,
    OUT response           bytea,
    OUT metadata           bytea,
    OUT error              bytea,
    OUT resource           uuid,
    OUT status             text,
    OUT status_error       text,
    OUT lease_left_ms      bigint,
    OUT expires_in_ms      bigint
)
LANGUAGE plpgsql AS $begin$
DECLARE
    v_lease CONSTANT interval := make_interval(secs => p_lease);
    v_lock CONSTANT bigint := tenant.idempotency_lock_id(p_user, p_key);
    v_request CONSTANT integer := tenant.idempotency_request_id(p_procedure, p_request_hash);
    v_status record;
    v_seen text;
    v_held boolean;
BEGIN
    PERFORM set_config('app.current_user_id', p_user::text, true),
            set_config('app.idempotency_token', p_token::text, true),
            tenant.idempotency_limit_idle(p_lease),
            pg_advisory_xact_lock_shared(1768187245, v_request);

    v_held := pg_try_advisory_xact_lock(v_lock);

    SELECT tenant.idempotency_state(k, p_token, v_lease), k.procedure, k.request_hash, k.response_bytes,
           k.response_metadata, k.error_bytes, tenant.idempotency_resource_id(k),
           tenant.idempotency_milliseconds_until(coalesce(k.lease_expires, k.created + v_lease)),
           tenant.idempotency_milliseconds_until(k.expires),
           concat(k.id, ' ', k.token)
    INTO state, recorded_procedure, recorded_hash, response, metadata, error, resource, lease_left_ms, expires_in_ms, v_seen
    FROM tenant.idempotency_keys k
    WHERE k.idempotency_key = p_key AND k.user_id = p_user;

    -- The lock's holder may be a replay that has not ended yet, so a final state is returned even without the lock.
    IF NOT v_held AND (state IS NULL OR state IN ('expired', 'unknown', 'abandoned')) THEN
        state := tenant.idempotency_holder(v_lock, v_request);
        lease_left_ms := 1000 * p_lease;
        RETURN;
    END IF;

    IF state IS NULL THEN
        state := 'acquired';
    ELSIF state = 'expired' THEN
        state := 'acquired';
        PERFORM set_config('app.idempotency_seen', v_seen, true);
    ELSIF recorded_procedure = p_procedure
          AND recorded_hash = p_request_hash
          AND (state = 'abandoned' AND p_on_lease_ended <> 'refuse'
               OR state = 'unknown' AND p_on_lease_ended = 'reconcile') THEN
        -- A reservation left behind by a server in reserved mode.
        state := 'taken_over';
        PERFORM set_config('app.idempotency_seen', v_seen, true);
    ELSIF state = 'completed' AND resource IS NOT NULL AND p_resource_type IS NOT NULL THEN
        v_status := tenant.idempotency_soft_status(p_resource_type, resource);
        status := v_status.status;
        status_error := v_status.status_error;
    END IF;
END
$begin$;

-- Limits how long this transaction may be idle, in seconds. A shorter limit set in the server is not changed.
CREATE OR REPLACE FUNCTION tenant.idempotency_limit_idle(p_limit double precision) RETURNS void
LANGUAGE plpgsql AS $idle$
DECLARE
    -- '0' if the server sets no limit; it need not be converted to an interval.
    v_limit CONSTANT text := current_setting('idle_in_transaction_session_timeout');
    v_seconds double precision := least(p_limit, 2147483.647);
BEGIN
    IF v_limit <> '0' THEN
        v_seconds := least(v_seconds, date_part('epoch', v_limit::interval));
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', greatest(1, ceil(v_seconds * 1000))::text, true);
END
$idle$;

-- commit: inserts the complete record. Replaces the row that tenant.idempotency_begin took over or found expired, if it
-- has not changed. If the call must not take effect, raises an error, so that the COMMIT that follows rolls back: TI001
-- if another call has recorded or reserved the key, TI002 if this is not the transaction that tenant.idempotency_begin
-- ran in.
CREATE OR REPLACE FUNCTION tenant.idempotency_commit(
    p_user            uuid,
    p_key             uuid,
    p_token           uuid,
    p_procedure       text,
    p_request_hash    bytea,
    p_lease           double precision, -- seconds
    p_on_lease_ended  text,
    p_response        bytea,
    p_not_stored         boolean,
    p_error           bytea, -- instead of a response
    p_metadata        bytea, -- with a response; NULL for none
    p_retention       double precision, -- seconds
    p_resource_column text, -- NULL for none
    p_resource        uuid
) RETURNS void
LANGUAGE plpgsql AS $commit$
BEGIN
    IF current_setting('app.idempotency_token', true) IS DISTINCT FROM p_token::text THEN
        RAISE EXCEPTION 'the handler ended the transaction that the layer began for the call; it must not commit or roll back'
            USING ERRCODE = 'TI002';
    END IF;
    PERFORM set_config('app.current_user_id', p_user::text, true);

    FOR v_round IN 1..2 LOOP
        IF tenant.idempotency_insert_row(
            p_user, p_key, p_token, p_procedure, p_request_hash, p_response, p_not_stored, p_error, p_metadata,
            make_interval(secs => p_retention), p_resource_column, p_resource
        ) THEN
            RETURN;
        END IF;

        DELETE FROM tenant.idempotency_keys k
        WHERE k.idempotency_key = p_key
          AND k.user_id = p_user
          AND concat(k.id, ' ', k.token) = current_setting('app.idempotency_seen', true)
          AND (k.expires <= clock_timestamp()
               OR (p_on_lease_ended <> 'refuse'
                   AND (NOT k.outcome_unknown OR p_on_lease_ended = 'reconcile')
                   AND k.response_bytes IS NULL
                   AND k.error_bytes IS NULL
                   AND coalesce(k.lease_expires, k.created + make_interval(secs => p_lease)) <= clock_timestamp()
                   AND k.procedure = p_procedure
                   AND k.request_hash = p_request_hash));
        EXIT WHEN NOT FOUND;
    END LOOP;

    RAISE EXCEPTION 'another call with this idempotency key was recorded or has reserved the key'
        USING ERRCODE = 'TI001';
END
$commit$;

-- Returns whether no transaction of the key is open.
CREATE OR REPLACE FUNCTION tenant.idempotency_settled(p_user uuid, p_key uuid) RETURNS boolean
LANGUAGE sql VOLATILE AS $settled$
    SELECT pg_try_advisory_xact_lock(tenant.idempotency_lock_id(p_user, p_key))
$settled$;

-- Returns whether the transaction with this token was committed. Reliable only if tenant.idempotency_settled returned
-- true in an earlier statement.
CREATE OR REPLACE FUNCTION tenant.idempotency_committed(p_user uuid, p_key uuid, p_token uuid) RETURNS boolean
LANGUAGE plpgsql AS $committed$
BEGIN
    PERFORM set_config('app.current_user_id', p_user::text, true);
    RETURN EXISTS (
        SELECT FROM tenant.idempotency_keys k
        WHERE k.idempotency_key = p_key AND k.user_id = p_user AND k.token = p_token
          AND num_nonnulls(k.response_bytes, k.error_bytes) = 1
    );
END
$committed$;
