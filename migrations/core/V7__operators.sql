-- Functions for operators: they find keys that are stuck, show what the layer has recorded of a key, release it, and erase what records
-- hold. These functions run with the rights of the table's owner, and note in tenant.idempotency_audit who called them. Only roles that
-- tenant.idempotency_grant_operator was called for can execute them; such a role needs no right on the table.

-- The audit log of operators' calls. Written by the functions below alone; no role but the table's owner can read or change it.
CREATE TABLE IF NOT EXISTS tenant.idempotency_audit (
    id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT idempotency_audit_pk PRIMARY KEY,
    happened        timestamptz NOT NULL DEFAULT clock_timestamp(),
    operator        name        NOT NULL DEFAULT session_user,
    action          text        NOT NULL,
    idempotency_key uuid, -- NULL for a list and for an erasure
    user_id         uuid, -- NULL for a list
    procedure       text, -- of the record; NULL if there was none
    token           uuid, -- of the record, or the one that the operator named
    state           text, -- before, as tenant.idempotency_inspect returns it
    outcome         text, -- of a release or an eviction; of a page of an erasure, its numbers
    reason          text,
    CONSTRAINT idempotency_audit_ck_action CHECK (
        action = 'list' OR action = 'erase' AND user_id IS NOT NULL
        OR action IN ('inspect', 'release', 'evict') AND num_nulls(idempotency_key, user_id, state) = 0
    )
);

-- Returns a UUIDv8 (RFC 9562 section 5.8) of a hash. Called by the next two functions.
CREATE OR REPLACE FUNCTION tenant.idempotency_uuidv8(p_hash bytea) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN encode(substring(set_byte(
    set_byte(p_hash, 6, (get_byte(p_hash, 6) & 15) | 128), 8, (get_byte(p_hash, 8) & 63) | 128
) FROM 1 FOR 16), 'hex')::uuid;

-- Returns a key as it is stored (the column idempotency_key), from its text as the caller wrote it: a UUID in any of its
-- forms is that UUID, any other text a UUIDv8 of its hash. The layer computes the same. Called by the operators' functions.
CREATE OR REPLACE FUNCTION tenant.idempotency_key_id(p_key text) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN p_key COLLATE "C" ~* '^[0-9a-f]{32}$'
         OR p_key COLLATE "C" ~* '^(urn:uuid:)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
         OR p_key COLLATE "C" ~* '^[{][0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[}]$'
    THEN regexp_replace(p_key COLLATE "C", '^urn:uuid:', '', 'i')::uuid
    ELSE tenant.idempotency_uuidv8(sha256('tonic-idempotency key '::bytea || convert_to(p_key, 'UTF8')))
END;

-- Returns the key of an operation (tonic_idempotency::run) with this name, such as 'billing.v1/ChargeOrder', that was run with this id, as it is
-- stored: a UUIDv8 of a hash of both, the id in its usual form if it is a UUID. Of a UUIDv7 it keeps the time and the version. The layer computes
-- the same. Its text is a key for the functions below. Called by operators.
CREATE OR REPLACE FUNCTION tenant.idempotency_operation_key(p_name text, p_id text) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
RETURN (
    SELECT CASE WHEN i.id COLLATE "C" ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'
                THEN (left(i.id, 14) || '7' || substr(m.key::text, 16))::uuid ELSE m.key END
    -- A UUID is its own key, and any other text is not.
    FROM (SELECT tenant.idempotency_key_id(p_id)::text AS key) u
    CROSS JOIN LATERAL (
        SELECT CASE WHEN regexp_replace(lower(p_id), '^urn:uuid:|[{}-]', '', 'g') = replace(u.key, '-', '') THEN u.key ELSE p_id END AS id
    ) i
    CROSS JOIN LATERAL (
        SELECT tenant.idempotency_uuidv8(sha256(
            'tonic-idempotency operation '::bytea || convert_to('/' || regexp_replace(p_name, '^/', '') || ' ' || i.id, 'UTF8')
        )) AS key
    ) m
);

-- Returns the owner of the records of a user in a scope (NULL for none), both as texts: the value of the column user_id. That
-- is the user's own UUID if it is one, in its usual form, and there is no scope; otherwise a UUIDv8 of a hash of both. The layer
-- computes the same. Called by the operators' functions.
CREATE OR REPLACE FUNCTION tenant.idempotency_owner(p_scope text, p_user text) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN coalesce(p_scope, '') = ''
         AND p_user COLLATE "C" ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN p_user::uuid
    ELSE tenant.idempotency_uuidv8(sha256(
        'tonic-idempotency owner v1'::bytea
        || int4send(coalesce(octet_length(convert_to(p_scope, 'UTF8')), 0)) || coalesce(convert_to(p_scope, 'UTF8'), '')
        || int4send(octet_length(convert_to(p_user, 'UTF8'))) || convert_to(p_user, 'UTF8')
    ))
END;

-- Returns the node that has the records of an owner, or NULL if that is this server. A pack may replace it, so it is made only once. Called
-- by the operators' functions.
DO $hook$
BEGIN
    IF to_regprocedure('tenant.idempotency_node(uuid)') IS NULL THEN
        CREATE FUNCTION tenant.idempotency_node(p_owner uuid) RETURNS text
        LANGUAGE plpgsql STABLE AS $node$ BEGIN RETURN NULL; END $node$;
    END IF;
END
$hook$;

-- Returns an operator's reason, for the audit; fails if it is longer than 4000 bytes. Called by the functions that take one.
CREATE OR REPLACE FUNCTION tenant.idempotency_reason(p_reason text) RETURNS text
LANGUAGE plpgsql STABLE AS $reason$
BEGIN
    IF octet_length(p_reason) > 4000 THEN
        RAISE EXCEPTION 'the reason is longer than 4000 bytes' USING ERRCODE = 'string_data_right_truncation';
    END IF;
    RETURN p_reason;
END
$reason$;

-- Returns how to end the transaction that holds a key of an owner: open in the connection p_pid, or prepared as p_gid. Called by the functions
-- that such a transaction stops.
CREATE OR REPLACE FUNCTION tenant.idempotency_how_to_end(p_owner uuid, p_pid integer, p_gid text) RETURNS text
LANGUAGE plpgsql STABLE AS $how_to_end$
BEGIN
    RETURN concat(
        CASE WHEN p_gid IS NULL THEN 'A transaction is open' ELSE 'A prepared transaction is left' END,
        ' for the key. Wait until it has ended, or end it', ' on ' || tenant.idempotency_node(p_owner), ': ',
        CASE WHEN p_gid IS NULL THEN concat('SELECT pg_terminate_backend(', p_pid, ')')
             ELSE format('COMMIT PREPARED %1$L, or ROLLBACK PREPARED %1$L', p_gid) END
    );
END
$how_to_end$;

-- Returns at most p_limit keys of all users that have no outcome, oldest first: first reserved within p_lookback (NULL for no limit), and not
-- expired. Their states are 'reserved', 'abandoned' and 'unknown' (tenant.idempotency_inspect); the text of a key's and of an owner's id is a
-- key and a user for that function. A call in a transaction has no row yet. Sees the rows that the recovery sees. Called by operators.
--
-- The primary key is a UUIDv7, so only rows within p_lookback are read, for p_seconds at most. The last row has no key: `records` is the number of
-- records that were read, and `reached` where the next page begins (p_after), NULL if there is no more. A page is of rows of the index, not of
-- keys without an outcome, which may be a few among millions. (As in the sweep, the planner would rather read and sort the whole table.)
CREATE OR REPLACE FUNCTION tenant.idempotency_list(
    p_procedure text             DEFAULT NULL, -- such as '/billing.v1.OrderService/CreateOrder'; NULL for all
    p_lookback  interval         DEFAULT interval '1 day',
    p_limit     integer          DEFAULT 100,
    p_after     uuid             DEFAULT NULL, -- NULL for the first page
    p_seconds   double precision DEFAULT 0.5
) RETURNS TABLE (
    state text, key_id uuid, owner uuid, procedure text, token uuid, attempts integer, created timestamptz, expires timestamptz,
    records bigint, reached uuid
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_sort = off
SET enable_seqscan = off
SET jit = off AS $list$
DECLARE
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    v_ends CONSTANT timestamptz := clock_timestamp() + make_interval(secs => p_seconds);
    -- In milliseconds since 1970. greatest() ignores NULL.
    v_since CONSTANT bigint := 1000 * greatest(0, date_part('epoch', clock_timestamp()) - date_part('epoch', p_lookback));
    v_after uuid := coalesce(p_after, encode(substring(int8send(v_since) FROM 3) || decode('00000000000000000000', 'hex'), 'hex')::uuid);
    v_last uuid; -- of the page
    v_id uuid;
    v_left integer := p_limit;
    v_rows bigint;
    v_read bigint := 0;
BEGIN
    PERFORM tenant.idempotency_needs_sight('idempotency_keys_recovery_policy');
    -- One note for all pages of a list.
    IF p_after IS NULL THEN
        INSERT INTO tenant.idempotency_audit (action, procedure) VALUES ('list', p_procedure);
    END IF;
    PERFORM tenant.idempotency_see('recovery');

    WHILE v_left > 0 LOOP
        SELECT p.id, count(*) OVER () INTO v_last, v_rows FROM (
            SELECT k.id FROM tenant.idempotency_keys k WHERE k.id > v_after ORDER BY k.id LIMIT 5000
        ) p
        ORDER BY p.id DESC LIMIT 1;
        EXIT WHEN v_last IS NULL;
        v_read := v_read + v_rows;

        -- Materialized: otherwise Citus would not send the nodes the setting that shows these rows.
        FOR state, key_id, owner, procedure, token, attempts, created, expires, v_id IN
            WITH found AS MATERIALIZED (
                SELECT k.*
                FROM tenant.idempotency_keys k
                WHERE k.id > v_after
                  AND k.id <= v_last
                  AND k.response_bytes IS NULL
                  AND k.error_bytes IS NULL
                  AND k.expires > now()
                  AND (p_procedure IS NULL OR k.procedure = p_procedure)
                ORDER BY k.id
                LIMIT v_left
            )
            SELECT tenant.idempotency_state(f, NULL, NULL, now()), f.idempotency_key, f.user_id, f.procedure, f.token, f.attempts,
                   f.created, f.expires, f.id
            FROM found f ORDER BY f.id
        LOOP
            v_left := v_left - 1;
            v_after := v_id;
            RETURN NEXT;
        END LOOP;
        IF v_left > 0 THEN
            v_after := v_last;
        END IF;
        EXIT WHEN clock_timestamp() > v_ends;
    END LOOP;

    SELECT v_read, CASE WHEN v_last IS NOT NULL THEN v_after END INTO records, reached;
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL INTO state, key_id, owner, procedure, token, attempts, created, expires;
    RETURN NEXT;
    PERFORM tenant.idempotency_see('', v_owner, v_user);
END
$list$;

-- Returns the state and the record of the key of a user, in a scope or in none. All are texts, as the application and its clients write
-- them; for a record whose owner alone is known (the column user_id), that is the user. The states:
--
--   absent      there is no record, or it has expired: a call runs
--   reserved    a call holds the key, for lease_left at least. NULL for a reservation of the Go interceptor
--   running     a call holds the key in a transaction: open in the connection holder_pid, or prepared as holder_gid
--   abandoned   the lease of a call ended without an outcome, before now by -lease_left; the procedure's policy decides what a retry does
--   unknown     the call ended, and it is not known whether it took effect
--   completed   has a response, which a retry gets
--   not_stored  completed, but the response was too large to store, or was erased
--   failed      has the error that ended the operation, which a retry gets
--
-- holder_since is the beginning of the transaction, NULL unless the table's owner has the rights of the API's role or of
-- pg_read_all_stats; or the time when it was prepared. Called by operators.
CREATE OR REPLACE FUNCTION tenant.idempotency_inspect(
    p_key text, p_user text, p_scope text DEFAULT NULL,
    OUT state text, OUT procedure text, OUT token uuid, OUT lease_left interval, OUT attempts integer, OUT created timestamptz,
    OUT expires timestamptz, OUT resource text, OUT holder_pid integer, OUT holder_gid text, OUT holder_application text,
    OUT holder_since timestamptz, OUT key_id uuid, OUT owner uuid
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $inspect$
DECLARE
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    v_record record;
BEGIN
    key_id := tenant.idempotency_key_id(p_key);
    owner := tenant.idempotency_owner(p_scope, p_user);
    IF key_id IS NULL OR owner IS NULL THEN
        RAISE EXCEPTION 'the key and the user are needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM tenant.idempotency_act_for(owner, owner);
    v_record := tenant.idempotency_look_up_row(owner, key_id);
    state := coalesce(nullif(v_record.state, 'expired'), 'absent');
    IF state <> 'absent' THEN
        procedure := v_record.procedure;
        token := v_record.token;
        attempts := v_record.attempts;
        created := v_record.created;
        expires := v_record.expires;
        resource := v_record.resource;
    END IF;
    IF state IN ('reserved', 'abandoned') THEN
        lease_left := v_record.lease_left;
    END IF;
    IF num_nonnulls(v_record.holder_pid, v_record.holder_gid) > 0 THEN
        state := 'running';
        holder_pid := v_record.holder_pid;
        holder_gid := v_record.holder_gid;
        holder_application := coalesce('on ' || tenant.idempotency_node(owner), v_record.holder_application);
        holder_since := v_record.holder_since;
    END IF;

    INSERT INTO tenant.idempotency_audit (action, idempotency_key, user_id, procedure, token, state)
    VALUES ('inspect', key_id, owner, procedure, token, state);
    PERFORM tenant.idempotency_set(ARRAY['app.current_user_id', v_user, 'idempotency.owner', v_owner]);
END
$inspect$;

-- Deletes the row of a key, or says why not: for tenant.idempotency_operator_release, which calls it. The row does not change between the
-- decision and its deletion.
CREATE OR REPLACE FUNCTION tenant.idempotency_operator_release_row(
    p_user uuid, p_key uuid, p_token uuid,
    OUT outcome text,
    OUT state      text, -- before; NULL for no record
    OUT procedure text, OUT holder_pid integer, OUT holder_gid text
)
LANGUAGE plpgsql AS $release_row$
DECLARE
    v_lock CONSTANT bigint := tenant.idempotency_lock_id(p_user, p_key);
    v_held CONSTANT boolean := pg_try_advisory_xact_lock(v_lock);
    v_holder record;
    k record;
BEGIN
    IF v_held THEN
        SELECT x.* INTO k FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user FOR UPDATE;
    ELSE
        -- The transaction that holds the key may have locked its row, and is not waited for.
        SELECT x.* INTO k FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user;
    END IF;
    IF k.id IS NOT NULL THEN
        state := nullif(tenant.idempotency_state(k, NULL, NULL, clock_timestamp()), 'expired');
        procedure := CASE WHEN state IS NOT NULL THEN k.procedure END;
    END IF;
    -- The lock's holder may be a replay that has not ended yet.
    IF state IN ('completed', 'not_stored', 'failed') THEN
        outcome := state;
    ELSIF NOT v_held THEN
        outcome := 'running';
        v_holder := tenant.idempotency_holder(v_lock);
        holder_pid := v_holder.pid;
        holder_gid := v_holder.gid;
    ELSIF state IS NULL THEN
        outcome := 'absent';
    ELSIF k.token IS DISTINCT FROM p_token THEN
        outcome := 'other_token';
    ELSE
        DELETE FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.id = k.id;
        outcome := 'released';
    END IF;
END
$release_row$;

-- Frees a key without an outcome, so that a retry runs the handler: reserved, abandoned or unknown -> absent. Only the
-- reservation with this token (NULL for one of the Go interceptor, which has none): a call that still runs with it cannot
-- record its outcome any more. Deletes no outcome, and ends no transaction. The outcomes:
--
--   released     the key is free
--   absent       there was nothing to release
--   other_token  the key is held, but not with this token
--   running      a transaction holds the key: open in the connection holder_pid, or prepared. `hint` has the statement that ends it
--   completed, not_stored, failed   the call has an outcome, which stays
-- Called by operators, and by the operations service.
CREATE OR REPLACE FUNCTION tenant.idempotency_operator_release(
    p_key text, p_user text, p_token uuid, p_scope text DEFAULT NULL, p_reason text DEFAULT NULL,
    OUT outcome text, OUT holder_pid integer, OUT hint text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $release$
DECLARE
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    v_key CONSTANT uuid := tenant.idempotency_key_id(p_key);
    v_of CONSTANT uuid := tenant.idempotency_owner(p_scope, p_user);
    v_found record;
BEGIN
    IF v_key IS NULL OR v_of IS NULL THEN
        RAISE EXCEPTION 'the key and the user are needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM tenant.idempotency_act_for(v_of, v_of);
    v_found := tenant.idempotency_operator_release_row(v_of, v_key, p_token);
    outcome := v_found.outcome;
    holder_pid := v_found.holder_pid;
    hint := CASE outcome
        WHEN 'released' THEN 'A retry runs the handler. A call that still runs cannot record its outcome.'
        WHEN 'absent' THEN 'There is nothing to release: a call with this key runs the handler.'
        WHEN 'other_token' THEN 'Another call holds the key: inspect it again.'
        WHEN 'running' THEN tenant.idempotency_how_to_end(v_of, holder_pid, v_found.holder_gid)
        ELSE 'The call has an outcome, which a retry gets. It is not released.'
    END;

    INSERT INTO tenant.idempotency_audit (action, idempotency_key, user_id, procedure, token, state, outcome, reason)
    VALUES ('release', v_key, v_of, v_found.procedure, p_token,
            CASE WHEN outcome = 'running' THEN outcome ELSE coalesce(v_found.state, 'absent') END, outcome,
            tenant.idempotency_reason(p_reason));
    PERFORM tenant.idempotency_set(ARRAY['app.current_user_id', v_user, 'idempotency.owner', v_owner]);
END
$release$;

-- Returns an error as it stays when its content is erased: the message StoredError of the layer, with its code and another text. The layer
-- writes the code first; of what does not begin with one, it is UNKNOWN. NULL for NULL. Called by the next two functions.
CREATE OR REPLACE FUNCTION tenant.idempotency_erased_error(p_error bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN decode('08', 'hex')
    || CASE WHEN octet_length(p_error) > 1 AND get_byte(p_error, 0) = 8 AND get_byte(p_error, 1) BETWEEN 1 AND 16
            THEN substring(p_error FROM 2 FOR 1) ELSE decode('02', 'hex') END
    || decode('12', 'hex') || set_byte(decode('00', 'hex'), 0, octet_length('the content of this error was erased by an operator'::bytea))
    || 'the content of this error was erased by an operator'::bytea;

-- Returns whether a row has an outcome without content. It takes columns, and is immutable, as tenant.idempotency_may_take_over. Called by the
-- next function and tenant.idempotency_erase_row.
CREATE OR REPLACE FUNCTION tenant.idempotency_is_erased(
    p_response bytea, p_metadata bytea, p_not_stored boolean, p_error bytea, p_resource_name text
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(
    num_nonnulls(p_metadata, p_resource_name) = 0
    AND (p_not_stored AND octet_length(p_response) = 0 OR p_error = tenant.idempotency_erased_error(p_error)), false
);

-- Erases the content of those of an owner's records that have an outcome, and returns how many it has changed. A response becomes one that was
-- not stored, an error keeps its code, and with p_names the created resource's name goes, too. A row that another transaction has locked stays
-- as it is, and is not waited for. Called by tenant.idempotency_evict_row and tenant.idempotency_erase_row.
CREATE OR REPLACE FUNCTION tenant.idempotency_erase_content(p_user uuid, p_ids uuid[], p_names boolean) RETURNS bigint
LANGUAGE plpgsql AS $erase_content$
DECLARE
    v_ids uuid[];
    v_rows bigint;
BEGIN
    SELECT array_agg(l.id) INTO v_ids FROM (
        SELECT x.id FROM tenant.idempotency_keys x
        WHERE x.user_id = p_user
          AND x.id = ANY (p_ids)
          AND num_nonnulls(x.response_bytes, x.error_bytes) = 1
          AND NOT tenant.idempotency_is_erased(
              x.response_bytes, x.response_metadata, x.response_not_stored, x.error_bytes, CASE WHEN p_names THEN x.resource_name END)
        FOR UPDATE SKIP LOCKED
    ) l;
    UPDATE tenant.idempotency_keys x
    SET response_bytes      = CASE WHEN x.response_bytes IS NOT NULL THEN ''::bytea END,
        response_metadata   = NULL,
        response_not_stored = x.response_bytes IS NOT NULL,
        error_bytes         = tenant.idempotency_erased_error(x.error_bytes),
        resource_name       = CASE WHEN NOT p_names THEN x.resource_name END
    WHERE x.user_id = p_user AND x.id = ANY (v_ids);
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_rows;
END
$erase_content$;

-- Erases the content of a key's record, or deletes the record, or says why not: for tenant.idempotency_evict, which calls it. The row does not
-- change between the decision and that.
CREATE OR REPLACE FUNCTION tenant.idempotency_evict_row(
    p_user uuid, p_key uuid, p_token uuid, p_run_again boolean,
    OUT outcome text,
    OUT state      text, -- before; NULL for no record
    OUT procedure text, OUT holder_pid integer, OUT holder_gid text
)
LANGUAGE plpgsql AS $evict_row$
DECLARE
    v_lock CONSTANT bigint := tenant.idempotency_lock_id(p_user, p_key);
    v_held CONSTANT boolean := pg_try_advisory_xact_lock(v_lock);
    v_set text; -- an assignment costs less than PERFORM
    v_now timestamptz;
    v_ended boolean;
    v_holder record;
    k record;
BEGIN
    IF v_held THEN
        SELECT x.* INTO k FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user FOR UPDATE;
    ELSE
        -- The transaction that holds the key may have locked its row, and is not waited for.
        SELECT x.* INTO k FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user FOR UPDATE SKIP LOCKED;
    END IF;
    v_now := clock_timestamp();
    v_ended := num_nonnulls(k.response_bytes, k.error_bytes) = 1;
    IF k.id IS NOT NULL THEN
        state := tenant.idempotency_state(k, NULL, NULL, v_now);
        procedure := k.procedure;
    END IF;
    -- The lock's holder may be a replay that has not ended yet, or a call that replaces the record if it has expired or is deleted.
    IF NOT v_held AND (p_run_again OR NOT v_ended OR state = 'expired') THEN
        outcome := 'running';
        v_holder := tenant.idempotency_holder(v_lock);
        holder_pid := v_holder.pid;
        holder_gid := v_holder.gid;
    ELSIF state IS NULL OR state = 'expired' AND (NOT v_ended OR k.token IS DISTINCT FROM p_token) THEN
        outcome := 'absent';
    ELSIF NOT v_ended THEN
        outcome := state;
    ELSIF k.token IS DISTINCT FROM p_token THEN
        outcome := 'other_token';
    ELSIF p_run_again IS NOT TRUE THEN
        v_set := tenant.idempotency_erase_content(p_user, ARRAY[k.id], false);
        outcome := 'evicted';
    ELSIF k.completed > v_now - interval '1 minute' THEN
        outcome := 'too_early';
    ELSE
        DELETE FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.id = k.id;
        outcome := 'deleted';
    END IF;
END
$evict_row$;

-- Erases the content of a record: completed, not_stored or failed. A retry gets IDEMPOTENCY_RESPONSE_NOT_STORED then (or the response that the
-- application rebuilds), or an error with the code of the recorded one; the created resource's id stays. With p_run_again it deletes the
-- record: a retry runs the handler, whose effect may happen a second time. Only the record of the call with this token (NULL for one of the Go
-- interceptor, which has none). The outcomes:
--
--   evicted      the content is gone, or there was none. Also of a record that has expired and is not swept yet
--   deleted      the record is gone
--   absent       there was no record
--   other_token  there is one, but not with this token
--   too_early    it is not deleted in the first minute after its completion: its server may still look for it, as the answer to the COMMIT
--                was lost
--   running      a transaction holds the key: open in the connection holder_pid, or prepared. `hint` has the statement that ends it
--   reserved, abandoned, unknown   the call has no outcome: see tenant.idempotency_operator_release
--
-- Servers replay from memory for up to a minute more. Dead rows have the content until the next vacuum; the write-ahead log, standbys that
-- lag, and backups have it for longer. Called by operators.
CREATE OR REPLACE FUNCTION tenant.idempotency_evict(
    p_key text, p_user text, p_token uuid, p_scope text DEFAULT NULL, p_reason text DEFAULT NULL, p_run_again boolean DEFAULT false,
    OUT outcome text, OUT holder_pid integer, OUT hint text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $evict$
DECLARE
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    v_key CONSTANT uuid := tenant.idempotency_key_id(p_key);
    v_of CONSTANT uuid := tenant.idempotency_owner(p_scope, p_user);
    v_found record;
BEGIN
    IF v_key IS NULL OR v_of IS NULL THEN
        RAISE EXCEPTION 'the key and the user are needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM tenant.idempotency_act_for(v_of, v_of);
    v_found := tenant.idempotency_evict_row(v_of, v_key, p_token, p_run_again);
    outcome := v_found.outcome;
    holder_pid := v_found.holder_pid;
    hint := CASE outcome
        WHEN 'evicted' THEN CASE v_found.state
            WHEN 'expired' THEN 'The content is erased. The record has expired: a call with this key runs the handler.'
            WHEN 'failed' THEN 'A retry gets an error with the same code. Servers may replay the whole error from memory for a minute.'
            ELSE 'A retry gets IDEMPOTENCY_RESPONSE_NOT_STORED. Servers may replay the response from memory for a minute.'
        END
        WHEN 'deleted' THEN 'A retry runs the handler. Servers may replay the outcome from memory for a minute.'
        WHEN 'absent' THEN 'There is nothing to evict: a call with this key runs the handler.'
        WHEN 'other_token' THEN 'The record is that of another call: inspect the key again.'
        WHEN 'too_early' THEN 'The call has ended less than a minute ago, and its server may still look for the record. Wait a minute.'
        WHEN 'running' THEN tenant.idempotency_how_to_end(v_of, holder_pid, v_found.holder_gid)
        ELSE 'The call has no outcome, and so nothing to evict. tenant.idempotency_operator_release frees its key.'
    END;

    INSERT INTO tenant.idempotency_audit (action, idempotency_key, user_id, procedure, token, state, outcome, reason)
    VALUES ('evict', v_key, v_of, v_found.procedure, p_token,
            CASE WHEN outcome = 'running' THEN outcome ELSE coalesce(nullif(v_found.state, 'expired'), 'absent') END, outcome,
            tenant.idempotency_reason(p_reason));
    PERFORM tenant.idempotency_set(ARRAY['app.current_user_id', v_user, 'idempotency.owner', v_owner]);
END
$evict$;

-- Erases the content of a page of an owner's records, in the order of their ids: for tenant.idempotency_erase, which calls it.
--
-- All ids of the owner are read first, by an index that finds them if there is one. Otherwise the planner, which has no statistics of owners,
-- would read the primary key of the whole table from p_reached on.
CREATE OR REPLACE FUNCTION tenant.idempotency_erase_row(
    p_user uuid, p_batch integer, p_reached uuid, OUT erased bigint, OUT remaining bigint, OUT reached uuid
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off AS $erase_row$
DECLARE
    v_ids uuid[];
BEGIN
    WITH owned AS MATERIALIZED (
        SELECT k.id FROM tenant.idempotency_keys k WHERE k.user_id = p_user
    )
    SELECT array_agg(p.id ORDER BY p.id) INTO v_ids
    FROM (SELECT o.id FROM owned o WHERE p_reached IS NULL OR o.id > p_reached ORDER BY o.id LIMIT p_batch) p;
    erased := tenant.idempotency_erase_content(p_user, v_ids, true);
    remaining := (
        SELECT count(*) FROM tenant.idempotency_keys k
        WHERE k.user_id = p_user
          AND k.id = ANY (v_ids)
          AND NOT tenant.idempotency_is_erased(
              k.response_bytes, k.response_metadata, k.response_not_stored, k.error_bytes, k.resource_name)
    );
    IF cardinality(v_ids) = p_batch THEN
        reached := v_ids[p_batch];
    END IF;
END
$erase_row$;

-- Erases the content of the records of a user in a scope (NULL for none), as tenant.idempotency_evict does, and the names of created resources,
-- those in columns of their own excepted: of at most p_batch records, in the order of their ids. `reached` is where the next page begins
-- (p_reached), NULL if there is no more. Deletes no record: a late retry would run the handler.
--
-- `erased` counts the records that it has changed, and `remaining` those that it has left: reservations, whose calls may still record a response,
-- and records that another transaction has locked. A call in a transaction has no row yet. So keep the user from calling, and erase again, until
-- the calls have ended and both numbers are 0 on all pages. What is said there of memory, dead rows and backups holds here, too.
--
-- It is quick with an index that finds the records of a user, such as one that is led by user_id and expires, or with partitions. Without any,
-- each page reads an index of the whole table. Called by operators.
CREATE OR REPLACE FUNCTION tenant.idempotency_erase(
    p_user text, p_scope text DEFAULT NULL, p_reason text DEFAULT NULL, p_batch integer DEFAULT 1000, p_reached uuid DEFAULT NULL,
    OUT erased bigint, OUT remaining bigint, OUT reached uuid
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $erase$
DECLARE
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    v_of CONSTANT uuid := tenant.idempotency_owner(p_scope, p_user);
    v_found record;
BEGIN
    IF v_of IS NULL THEN
        RAISE EXCEPTION 'the user is needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF p_batch IS NULL OR p_batch < 1 THEN
        RAISE EXCEPTION 'a page cannot have % records', coalesce(p_batch::text, 'NULL') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM tenant.idempotency_act_for(v_of, v_of);
    v_found := tenant.idempotency_erase_row(v_of, p_batch, p_reached);
    erased := v_found.erased;
    remaining := v_found.remaining;
    reached := v_found.reached;

    -- Of the pages that change nothing, the first is noted.
    IF p_reached IS NULL OR erased > 0 THEN
        INSERT INTO tenant.idempotency_audit (action, user_id, outcome, reason)
        VALUES ('erase', v_of, format('%s erased, %s remaining', erased, remaining), tenant.idempotency_reason(p_reason));
    END IF;
    PERFORM tenant.idempotency_set(ARRAY['app.current_user_id', v_user, 'idempotency.owner', v_owner]);
END
$erase$;

-- Returns how the layer's tables are, without any user's data: versions, sizes, estimated and dead rows, the last vacuum and the last statistics,
-- since when the oldest expired record waits for the sweep, and the oldest transactions of this database, which keep dead rows and may hold keys.
-- NULL is what there is not; what the table's owner may not see is counted in unseen_sessions. Called by operators.
CREATE OR REPLACE FUNCTION tenant.idempotency_overview(
    OUT server_version text, OUT database name, OUT is_standby boolean, OUT table_owner name, OUT version integer, OUT migrations text[],
    OUT partitions integer, OUT table_bytes bigint, OUT index_bytes bigint, OUT estimated_rows bigint, OUT dead_rows bigint,
    OUT last_vacuum timestamptz, -- of the partition whose last one is the longest ago; NULL if one never had any
    OUT last_analyze timestamptz, OUT oldest_expired timestamptz, OUT oldest_transaction timestamptz, OUT oldest_transaction_pid integer,
    OUT oldest_transaction_application text, OUT oldest_prepared timestamptz, OUT unseen_sessions bigint, OUT audit_rows bigint
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_sort = off
SET enable_seqscan = off
SET jit = off AS $overview$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
BEGIN
    server_version := current_setting('server_version');
    database := current_database();
    is_standby := pg_is_in_recovery();
    version := tenant.idempotency_version();
    table_owner := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = v_table);
    migrations := ARRAY(SELECT concat('V', m.version, ' ', m.name) FROM tenant.idempotency_migrations m ORDER BY m.version);

    SELECT count(*) FILTER (WHERE c.relispartition), sum(pg_table_size(c.oid)), sum(pg_indexes_size(c.oid)),
           sum(greatest(c.reltuples, 0)), sum(s.n_dead_tup),
           CASE WHEN bool_and(num_nonnulls(s.last_vacuum, s.last_autovacuum) > 0) THEN min(greatest(s.last_vacuum, s.last_autovacuum)) END,
           CASE WHEN bool_and(num_nonnulls(s.last_analyze, s.last_autoanalyze) > 0) THEN min(greatest(s.last_analyze, s.last_autoanalyze)) END
    INTO partitions, table_bytes, index_bytes, estimated_rows, dead_rows, last_vacuum, last_analyze
    FROM pg_class c
    LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
    WHERE c.relkind = 'r' AND c.oid IN (SELECT v_table::oid UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = v_table);

    SELECT a.xact_start, a.pid, a.application_name INTO oldest_transaction, oldest_transaction_pid, oldest_transaction_application
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
    ORDER BY a.xact_start LIMIT 1;
    unseen_sessions := (
        SELECT count(*) FROM pg_stat_activity a
        WHERE a.datname = current_database() AND NOT pg_has_role(a.usesysid, 'USAGE') AND NOT pg_has_role('pg_read_all_stats', 'USAGE')
    );
    oldest_prepared := (SELECT min(x.prepared) FROM pg_prepared_xacts x WHERE x.database = current_database());
    audit_rows := (SELECT greatest(c.reltuples, 0) FROM pg_class c WHERE c.oid = 'tenant.idempotency_audit'::regclass);

    -- The first entry of the index of each partition. Materialized: otherwise Citus would not send the nodes the setting that shows these rows.
    PERFORM tenant.idempotency_needs_sight('idempotency_keys_sweep_policy');
    PERFORM tenant.idempotency_see('sweep');
    WITH first AS MATERIALIZED (
        SELECT k.expires FROM tenant.idempotency_keys k WHERE k.expires <= now() ORDER BY k.expires LIMIT 1
    )
    SELECT f.expires INTO oldest_expired FROM first f;
    PERFORM tenant.idempotency_see('', v_owner, v_user);
END
$overview$;
