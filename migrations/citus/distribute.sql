-- Distributes tenant.idempotency_keys by user over the nodes of a Citus cluster, and moves the protocol to the node that holds
-- the row. Needs Citus (it has run on 13.2, with PostgreSQL 15), and the migrations of migrations/core on the coordinator. Run it on
-- the coordinator, as the role that owns the table, after all resource types have been registered; and again after each further
-- registration and after each further migration, which put the functions of one server back. It may run any number of times.
--
-- What it changes on the coordinator, docs/citus.md says why:
--
--   the primary key is (user_id, id), and the table is distributed by user_id
--   each function of the protocol has a counterpart *_on_node, which runs where the row is: Citus sends the whole call there
--   the procedures and functions that the store calls keep their names, begin on the coordinator, and call the counterparts
--   settings are sent to all nodes that take part in a transaction
--   statements for several calls do nothing, so that each call goes alone: set the store's max_batch to 1
--
-- Two rules of Citus shape the counterparts: a statement that changes rows must not call a volatile function, so that the clock is
-- read before it; and a row as a whole cannot be the argument of a function in a query, so that the row is read first.

-- Names mean PostgreSQL's own, whatever the role's search_path is. The last statement restores it.
SELECT pg_catalog.set_config('app.idempotency_search_path', pg_catalog.current_setting('search_path'), false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);

DO $check$
DECLARE
    v_partitions CONSTANT integer := tenant.idempotency_partitions();
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'citus') THEN
        RAISE EXCEPTION 'this database has no Citus' USING HINT = 'CREATE EXTENSION citus; then add the nodes.';
    END IF;
    IF v_partitions > 0 THEN
        RAISE EXCEPTION 'tenant.idempotency_keys has % partitions, and is not distributed', v_partitions
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'A table is either partitioned or distributed: begin with a table without partitions.';
    ELSIF to_regclass('tenant.idempotency_keys_next') IS NOT NULL THEN
        RAISE EXCEPTION 'tenant.idempotency_keys is being moved to partitions, and is not distributed'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call tenant.idempotency_stop_moving() before.';
    END IF;
END
$check$;

-- Changes of all parts of the table and of functions, in one transaction.
SET citus.multi_shard_modify_mode = 'sequential';

-- Looks at no key, so that each call looks alone: the rows of several are on several nodes. Before the distribution: Citus does not
-- distribute a table that a function reads with others that take its rows.
CREATE OR REPLACE FUNCTION tenant.idempotency_look(
    p_users          uuid[],
    p_keys           uuid[],
    p_tokens         uuid[],
    p_resource_types text[],
    p_app_users      uuid[],
    p_settings       text[]
) RETURNS TABLE (
    item               bigint,
    token              uuid,
    state              text,
    recorded_procedure text,
    recorded_hash      bytea,
    recorded_arrival   bytea,
    response           bytea,
    metadata           bytea,
    error              bytea,
    resource           text,
    status             text,
    status_error       text,
    lease_left_ms      bigint,
    expires_in_ms      bigint,
    age                double precision
)
LANGUAGE plpgsql STABLE ROWS 1 AS $look$
BEGIN
    RETURN;
END
$look$;

DO $distribute$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
    v_forced CONSTANT boolean := (SELECT c.relforcerowsecurity FROM pg_class c WHERE c.oid = v_table);
    v_key name;
BEGIN
    IF EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = v_table) THEN
        RETURN;
    END IF;

    -- Unique constraints of a distributed table contain the column that it is distributed by. The index on the id alone is
    -- for the recovery.
    SELECT c.conname INTO v_key
    FROM pg_constraint c
    WHERE c.conrelid = v_table AND c.contype = 'p' AND cardinality(c.conkey) = 1;
    IF FOUND THEN
        EXECUTE format(
            'ALTER TABLE tenant.idempotency_keys DROP CONSTRAINT %I, ADD CONSTRAINT %I PRIMARY KEY (user_id, id)', v_key, v_key
        );
    END IF;
    CREATE INDEX IF NOT EXISTS idempotency_keys_idx_id ON tenant.idempotency_keys (id);

    -- The policies and the column's default call these.
    PERFORM create_distributed_function('authn.current_user_id()'),
            create_distributed_function('tenant.idempotency_uuidv7()');
    -- Existing records are copied to the nodes by the owner, who is exempt from row-level security for that. The table is locked.
    IF v_forced THEN
        ALTER TABLE tenant.idempotency_keys NO FORCE ROW LEVEL SECURITY;
    END IF;
    PERFORM create_distributed_table('tenant.idempotency_keys', 'user_id');
    IF v_forced THEN
        ALTER TABLE tenant.idempotency_keys FORCE ROW LEVEL SECURITY;
    END IF;
END
$distribute$;

-- Sets the application's settings for this transaction, on this node and on all others that take part in it, now or later: names
-- and values in turn. Returns their number.
CREATE OR REPLACE FUNCTION tenant.idempotency_set(p_settings text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET citus.propagate_set_commands = 'local' AS $set$
BEGIN
    FOR i IN 1..cardinality(p_settings) BY 2 LOOP
        EXECUTE format(
            'SET LOCAL %s TO %L',
            (SELECT string_agg(quote_ident(n.part), '.' ORDER BY n.place)
             FROM unnest(string_to_array(p_settings[i], '.')) WITH ORDINALITY AS n (part, place)),
            coalesce(p_settings[i + 1], '')
        );
    END LOOP;
    RETURN cardinality(p_settings) / 2;
END
$set$;

-- Makes the rest of a transaction run with the records of this owner, as this user of the application, on all nodes that take part
-- in it, and with PostgreSQL's own names. (NULL is nobody.)
CREATE OR REPLACE FUNCTION tenant.idempotency_act_as(p_owner uuid, p_app_user uuid) RETURNS text
LANGUAGE plpgsql VOLATILE AS $act_as$
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
            tenant.idempotency_set(ARRAY[
                'idempotency.owner', coalesce(p_owner::text, ''), 'app.current_user_id', coalesce(p_app_user::text, '')
            ]);
    RETURN '';
END
$act_as$;

-- The same for a function that runs on the node of this owner's rows, for that node alone. Fails if the node is a standby
-- (tenant.idempotency_needs_primary).
CREATE OR REPLACE FUNCTION tenant.idempotency_act_on_node(p_owner uuid) RETURNS text
LANGUAGE sql VOLATILE
RETURN CASE
    WHEN current_setting('transaction_read_only') = 'on' THEN tenant.idempotency_needs_primary()
    ELSE set_config('idempotency.owner', p_owner::text, true) || set_config('app.current_user_id', p_owner::text, true)
END;

-- claim, on the node: tenant.idempotency_claim (V2) says what each step is for.
CREATE OR REPLACE FUNCTION tenant.idempotency_claim_on_node(
    p_user           uuid,
    p_key            uuid,
    p_token          uuid,
    p_procedure      text,
    p_request_hash   bytea,
    p_arrival_hash   bytea,
    p_lease          double precision, -- seconds
    p_retention      double precision, -- seconds
    p_on_lease_ended text,
    p_on_foreign     text,
    OUT state              text,
    OUT recorded_procedure text,
    OUT recorded_hash      bytea,
    OUT recorded_arrival   bytea,
    OUT response           bytea,
    OUT metadata           bytea,
    OUT error              bytea,
    OUT resource           text,
    OUT lease_left_ms      bigint,
    OUT expires_in_ms      bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $claim$
DECLARE
    v_set text; -- an assignment costs less than PERFORM
    v_lease CONSTANT interval := make_interval(secs => p_lease);
    v_retention CONSTANT interval := make_interval(secs => greatest(p_lease, p_retention));
    v_foreign_lease CONSTANT interval := CASE WHEN p_on_foreign <> 'in_progress' THEN v_lease END; -- NULL for none
    v_now timestamptz;
    v_lease_expires timestamptz;
    v_expires timestamptz;
    v_foreign_before timestamptz; -- a reservation without a lease that was made before this has ended; NULL for never
    v_policy text; -- the one of this row
    k tenant.idempotency_keys;
BEGIN
    v_set := tenant.idempotency_act_on_node(p_user);

    FOR v_round IN 1..16 LOOP
        SELECT x.* INTO k FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user;
        v_now := clock_timestamp();
        v_lease_expires := v_now + v_lease;
        v_expires := v_now + v_retention;
        IF k.id IS NULL THEN
            INSERT INTO tenant.idempotency_keys
                (idempotency_key, user_id, procedure, request_hash, arrival_hash, token, lease_expires, expires)
            VALUES
                (p_key, p_user, p_procedure, p_request_hash, p_arrival_hash, p_token, v_lease_expires, v_expires)
            ON CONFLICT (idempotency_key, user_id) DO NOTHING;
            IF FOUND THEN
                state := 'acquired';
                RETURN;
            END IF;
            CONTINUE;
        END IF;

        state := tenant.idempotency_state(k, p_token, v_foreign_lease);
        recorded_procedure := k.procedure;
        recorded_hash := k.request_hash;
        recorded_arrival := k.arrival_hash;
        response := k.response_bytes;
        metadata := k.response_metadata;
        error := k.error_bytes;
        resource := tenant.idempotency_resource_id(k);
        lease_left_ms := tenant.idempotency_milliseconds_until(coalesce(k.lease_expires, k.created + v_foreign_lease, k.expires));
        expires_in_ms := tenant.idempotency_milliseconds_until(k.expires);
        v_policy := CASE WHEN k.lease_expires IS NULL THEN p_on_foreign ELSE p_on_lease_ended END;
        v_foreign_before := v_now - v_foreign_lease;

        IF state IN ('acquired', 'taken_over') THEN
            -- Of an earlier attempt, which may not have waited for a synchronous standby of this node.
            UPDATE tenant.idempotency_keys x
            SET lease_expires = v_lease_expires
            WHERE x.idempotency_key = p_key
              AND x.user_id = p_user
              AND x.token = p_token
              AND x.response_bytes IS NULL
              AND x.error_bytes IS NULL
              AND x.lease_expires > 'epoch';
        ELSIF state = 'expired' THEN
            state := NULL;
            DELETE FROM tenant.idempotency_keys x
            WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.id = k.id AND x.expires <= v_now;
        ELSIF state IN ('abandoned', 'unknown')
              AND v_policy <> 'refuse'
              AND (state = 'abandoned' OR v_policy = 'reconcile')
              AND recorded_procedure = p_procedure
              AND tenant.idempotency_same_request(recorded_hash, recorded_arrival, p_request_hash, p_arrival_hash) THEN
            -- A takeover changes the token, so that it succeeds for one call only. The request of a row does not change.
            state := NULL;
            UPDATE tenant.idempotency_keys x
            SET token         = p_token,
                lease_expires = v_lease_expires,
                expires       = v_expires,
                attempts      = x.attempts + 1
            WHERE x.idempotency_key = p_key
              AND x.user_id = p_user
              AND x.id = k.id
              AND x.token IS NOT DISTINCT FROM k.token
              AND x.response_bytes IS NULL
              AND x.error_bytes IS NULL
              AND x.expires > v_now
              AND CASE WHEN x.lease_expires IS NULL THEN x.created <= v_foreign_before ELSE x.lease_expires <= v_now END
              AND (NOT x.outcome_unknown OR v_policy = 'reconcile');
            IF FOUND THEN
                state := 'taken_over';
            END IF;
        END IF;
        EXIT WHEN state IS NOT NULL;
    END LOOP;

    IF state IS NULL THEN
        RAISE EXCEPTION 'the idempotency key changed during each of 16 attempts to claim it; retry the call'
            USING ERRCODE = 'serialization_failure';
    END IF;
END
$claim$;

CREATE OR REPLACE PROCEDURE tenant.idempotency_claim(
    p_user           uuid,
    p_key            uuid,
    p_token          uuid,
    p_procedure      text,
    p_request_hash   bytea,
    p_arrival_hash   bytea,
    p_lease          double precision,
    p_retention      double precision,
    p_on_lease_ended text,
    p_on_foreign     text,
    p_resource_type  text,
    p_effect_is_here boolean, -- not used: the effect may be on another node, whose log does not flush the reservation
    p_app_user       uuid,
    p_settings       text[],
    p_until          double precision, -- by the coordinator's clock
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
    OUT expires_in_ms      bigint,
    OUT clock              double precision
)
LANGUAGE plpgsql AS $claim$
DECLARE
    v_set pg_catalog.text;
    v_status record;
BEGIN
    COMMIT;
    v_set := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    clock := date_part('epoch', clock_timestamp());
    IF clock > p_until THEN
        state := 'late';
        RETURN;
    END IF;
    SELECT n.state, n.recorded_procedure, n.recorded_hash, n.recorded_arrival, n.response, n.metadata, n.error, n.resource,
           n.lease_left_ms, n.expires_in_ms
    INTO state, recorded_procedure, recorded_hash, recorded_arrival, response, metadata, error, resource, lease_left_ms,
         expires_in_ms
    FROM tenant.idempotency_claim_on_node(
        p_user, p_key, p_token, p_procedure, p_request_hash, p_arrival_hash, p_lease, p_retention, p_on_lease_ended, p_on_foreign
    ) n;

    IF state = 'completed' AND resource IS NOT NULL AND p_resource_type IS NOT NULL THEN
        v_set := tenant.idempotency_act_as(p_user, p_app_user);
        IF p_settings IS NOT NULL THEN
            PERFORM tenant.idempotency_set(p_settings);
        END IF;
        v_status := tenant.idempotency_soft_status(p_resource_type, resource);
        status := v_status.status;
        status_error := v_status.status_error;
    END IF;
END
$claim$;

CREATE OR REPLACE FUNCTION tenant.idempotency_extend_on_node(
    p_user uuid, p_key uuid, p_token uuid, p_lease double precision, OUT extended boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $extend$
DECLARE
    v_set CONSTANT text := tenant.idempotency_act_on_node(p_user);
    v_until CONSTANT timestamptz := clock_timestamp() + make_interval(secs => p_lease);
BEGIN
    UPDATE tenant.idempotency_keys x
    SET lease_expires = v_until,
        expires       = greatest(x.expires, v_until)
    WHERE x.idempotency_key = p_key
      AND x.user_id = p_user
      AND x.token = p_token
      AND x.response_bytes IS NULL
      AND x.error_bytes IS NULL
      AND x.lease_expires > 'epoch';
    extended := FOUND;
END
$extend$;

CREATE OR REPLACE PROCEDURE tenant.idempotency_extend(
    p_user uuid, p_key uuid, p_token uuid, p_lease double precision, OUT extended boolean
)
LANGUAGE plpgsql AS $extend$
BEGIN
    COMMIT;
    SELECT n.extended INTO extended FROM tenant.idempotency_extend_on_node(p_user, p_key, p_token, p_lease) n (extended);
END
$extend$;

CREATE OR REPLACE FUNCTION tenant.idempotency_release_on_node(
    p_user uuid, p_key uuid, p_token uuid, OUT released boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $release$
DECLARE
    v_set CONSTANT text := tenant.idempotency_act_on_node(p_user);
BEGIN
    DELETE FROM tenant.idempotency_keys x
    WHERE x.idempotency_key = p_key
      AND x.user_id = p_user
      AND x.token = p_token
      AND x.attempts = 1
      AND NOT x.outcome_unknown
      AND x.response_bytes IS NULL
      AND x.error_bytes IS NULL;
    IF FOUND THEN
        released := true;
        RETURN;
    END IF;

    UPDATE tenant.idempotency_keys x
    SET lease_expires = 'epoch'
    WHERE x.idempotency_key = p_key
      AND x.user_id = p_user
      AND x.token = p_token
      AND x.response_bytes IS NULL
      AND x.error_bytes IS NULL;
    released := FOUND;
END
$release$;

CREATE OR REPLACE PROCEDURE tenant.idempotency_release(p_user uuid, p_key uuid, p_token uuid, OUT released boolean)
LANGUAGE plpgsql AS $release$
BEGIN
    COMMIT;
    SELECT n.released INTO released FROM tenant.idempotency_release_on_node(p_user, p_key, p_token) n (released);
END
$release$;

CREATE OR REPLACE FUNCTION tenant.idempotency_abandon_on_node(
    p_user uuid, p_key uuid, p_token uuid, OUT abandoned boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $abandon$
DECLARE
    v_set CONSTANT text := tenant.idempotency_act_on_node(p_user);
BEGIN
    UPDATE tenant.idempotency_keys x
    SET lease_expires   = 'epoch',
        outcome_unknown = true
    WHERE x.idempotency_key = p_key
      AND x.user_id = p_user
      AND x.token = p_token
      AND x.response_bytes IS NULL
      AND x.error_bytes IS NULL;
    abandoned := FOUND;
END
$abandon$;

CREATE OR REPLACE PROCEDURE tenant.idempotency_abandon(p_user uuid, p_key uuid, p_token uuid, OUT abandoned boolean)
LANGUAGE plpgsql AS $abandon$
BEGIN
    COMMIT;
    SELECT n.abandoned INTO abandoned FROM tenant.idempotency_abandon_on_node(p_user, p_key, p_token) n (abandoned);
END
$abandon$;

-- Transactional mode. The advisory locks are taken on the node that holds the owner's rows, in the transaction there; `seen` is
-- the row that the record may replace, kept on the coordinator until the commit.
CREATE OR REPLACE FUNCTION tenant.idempotency_begin_on_node(
    p_user           uuid,
    p_key            uuid,
    p_token          uuid,
    p_procedure      text,
    p_request_hash   bytea,
    p_arrival_hash   bytea,
    p_lease          double precision,
    p_idle           double precision,
    p_on_lease_ended text,
    p_on_foreign     text,
    OUT state              text,
    OUT recorded_procedure text,
    OUT recorded_hash      bytea,
    OUT recorded_arrival   bytea,
    OUT response           bytea,
    OUT metadata           bytea,
    OUT error              bytea,
    OUT resource           text,
    OUT lease_left_ms      bigint,
    OUT expires_in_ms      bigint,
    OUT seen               text
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $begin$
DECLARE
    v_held CONSTANT boolean := pg_try_advisory_xact_lock(tenant.idempotency_lock_id(p_user, p_key));
    v_foreign_lease CONSTANT interval := CASE WHEN p_on_foreign <> 'in_progress' THEN make_interval(secs => p_lease) END;
    v_policy text;
    v_set text;
    k tenant.idempotency_keys;
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    SELECT x.* INTO k FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user;
    IF k.id IS NOT NULL THEN
        state := tenant.idempotency_state(k, p_token, v_foreign_lease);
        recorded_procedure := k.procedure;
        recorded_hash := k.request_hash;
        recorded_arrival := k.arrival_hash;
        response := k.response_bytes;
        metadata := k.response_metadata;
        error := k.error_bytes;
        resource := tenant.idempotency_resource_id(k);
        lease_left_ms := tenant.idempotency_milliseconds_until(coalesce(k.lease_expires, k.created + v_foreign_lease, k.expires));
        expires_in_ms := tenant.idempotency_milliseconds_until(k.expires);
        v_policy := CASE WHEN k.lease_expires IS NULL THEN p_on_foreign ELSE p_on_lease_ended END;
    END IF;

    -- The lock's holder may be a replay that has not ended yet, so a final state is returned even without the lock.
    IF NOT v_held AND (state IS NULL OR state IN ('expired', 'unknown', 'abandoned')) THEN
        state := 'running';
        lease_left_ms := 1000 * p_idle;
        RETURN;
    END IF;

    IF state IS NULL THEN
        state := 'acquired';
    ELSIF state = 'expired' THEN
        state := 'acquired';
        seen := concat(k.id, ' ', k.token);
    ELSIF recorded_procedure = p_procedure
          AND tenant.idempotency_same_request(recorded_hash, recorded_arrival, p_request_hash, p_arrival_hash)
          AND (state = 'abandoned' AND v_policy <> 'refuse' OR state = 'unknown' AND v_policy = 'reconcile') THEN
        -- A reservation left behind by a server in reserved mode.
        state := 'taken_over';
        seen := concat(k.id, ' ', k.token);
    ELSIF state NOT IN ('acquired', 'taken_over') THEN
        RETURN;
    END IF;
END
$begin$;

-- No key is free here for the client's plain statements: their lock would be the coordinator's, and not the one of the node that has the
-- record, and a node does not have the settings that they make. So the client asks tenant.idempotency_begin, and tenant.idempotency_commit.
CREATE OR REPLACE FUNCTION tenant.idempotency_is_free(p_user uuid, p_key uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $is_free$
BEGIN
    RETURN false;
END
$is_free$;

CREATE OR REPLACE FUNCTION tenant.idempotency_begin(
    p_user           uuid,
    p_key            uuid,
    p_token          uuid,
    p_procedure      text,
    p_request_hash   bytea,
    p_arrival_hash   bytea,
    p_lease          double precision,
    p_idle           double precision,
    p_on_lease_ended text,
    p_on_foreign     text,
    p_resource_type  text,
    p_app_user       uuid,
    p_settings       text[],
    p_until          double precision, -- by the coordinator's clock
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
SET search_path = pg_catalog, pg_temp AS $begin$
DECLARE
    v_set text;
    v_seen text;
    v_status record;
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    IF date_part('epoch', clock_timestamp()) > p_until THEN
        state := 'late';
        RETURN;
    END IF;
    PERFORM tenant.idempotency_set(
        ARRAY['idempotency.owner', p_user::text, 'app.current_user_id', coalesce(p_app_user::text, '')] || p_settings
    );
    SELECT n.state, n.recorded_procedure, n.recorded_hash, n.recorded_arrival, n.response, n.metadata, n.error, n.resource,
           n.lease_left_ms, n.expires_in_ms, n.seen
    INTO state, recorded_procedure, recorded_hash, recorded_arrival, response, metadata, error, resource, lease_left_ms,
         expires_in_ms, v_seen
    FROM tenant.idempotency_begin_on_node(
        p_user, p_key, p_token, p_procedure, p_request_hash, p_arrival_hash, p_lease, p_idle, p_on_lease_ended, p_on_foreign
    ) n;

    IF state IN ('acquired', 'taken_over') THEN
        -- The limit is the coordinator's: what ends there ends on all nodes.
        v_set := set_config('app.idempotency_token', p_token::text, true)
              || set_config('app.idempotency_seen', coalesce(v_seen, ''), true)
              || tenant.idempotency_limit_idle(p_idle);
    ELSIF state = 'completed' AND resource IS NOT NULL AND p_resource_type IS NOT NULL THEN
        v_status := tenant.idempotency_soft_status(p_resource_type, resource);
        status := v_status.status;
        status_error := v_status.status_error;
    END IF;
END
$begin$;

-- The functions that complete a record, with a column for each resource type, as tenant.idempotency_write_statements (V3) makes
-- them.
DO $write$
DECLARE
    v_columns text; -- , project_id, ...
    v_values  text; -- , CASE WHEN p_resource_column = 'project_id' THEN p_resource::uuid END, ...
    v_sets    text; -- , project_id = CASE ...
    v_known   text; -- , 'project_id', ...
BEGIN
    SELECT coalesce(string_agg(format(', %I', t.resource_column), '' ORDER BY t.name), ''),
           coalesce(string_agg(
               format(', CASE WHEN p_resource_column = %L THEN p_resource::%s END', t.resource_column, t.id_type),
               '' ORDER BY t.name
           ), ''),
           coalesce(string_agg(
               format(', %I = CASE WHEN p_resource_column = %L THEN p_resource::%s END', t.resource_column,
                      t.resource_column, t.id_type),
               '' ORDER BY t.name
           ), ''),
           coalesce(string_agg(format(', %L', t.resource_column), '' ORDER BY t.name), '')
    INTO v_columns, v_values, v_sets, v_known
    FROM (
        SELECT r.name, r.resource_column, format_type(a.atttypid, NULL) AS id_type
        FROM tenant.idempotency_resource_types r
        JOIN pg_attribute a ON a.attrelid = 'tenant.idempotency_keys'::regclass AND a.attname = r.resource_column
                           AND NOT a.attisdropped
    ) t;

    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION tenant.idempotency_complete_on_node(
            p_user            uuid,
            p_key             uuid,
            p_token           uuid,
            p_response        bytea,
            p_not_stored      boolean,
            p_error           bytea,
            p_metadata        bytea,
            p_retention       double precision,
            p_resource_column text,
            p_resource        text,
            OUT outcome       text
        )
        LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $complete$
        DECLARE
            v_set CONSTANT text := tenant.idempotency_act_on_node(p_user);
            v_now CONSTANT timestamptz := clock_timestamp();
            v_expires CONSTANT timestamptz := v_now + make_interval(secs => p_retention);
            k tenant.idempotency_keys;
        BEGIN
            UPDATE tenant.idempotency_keys x
            SET response_bytes      = p_response,
                response_metadata   = p_metadata,
                response_not_stored = p_not_stored,
                error_bytes         = p_error,
                outcome_unknown     = false,
                completed           = v_now,
                expires             = CASE
                                          WHEN abs(date_part('epoch', x.expires - v_now) - p_retention) <= p_retention / 100
                                          THEN x.expires
                                          ELSE v_expires
                                      END
                %s
            WHERE x.idempotency_key = p_key
              AND x.user_id = p_user
              AND x.token = p_token
              AND x.response_bytes IS NULL
              AND x.error_bytes IS NULL;
            IF FOUND THEN
                outcome := 'completed';
                RETURN;
            END IF;

            SELECT x.* INTO k FROM tenant.idempotency_keys x
            WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.token = p_token;
            outcome := CASE WHEN num_nonnulls(k.response_bytes, k.error_bytes) = 1 THEN 'already_completed' ELSE 'fenced' END;
        END
        $complete$
        $function$,
        v_sets
    );

    EXECUTE format(
        $procedure$
        CREATE OR REPLACE PROCEDURE tenant.idempotency_complete(
            p_user            uuid,
            p_key             uuid,
            p_token           uuid,
            p_response        bytea,
            p_not_stored      boolean,
            p_error           bytea,
            p_metadata        bytea,
            p_retention       double precision,
            p_resource_column text,
            p_resource        text,
            OUT outcome       text
        )
        LANGUAGE plpgsql AS $complete$
        BEGIN
            COMMIT;
            IF p_resource_column OPERATOR(pg_catalog.<>) ALL (ARRAY[''%s]) THEN
                RAISE EXCEPTION 'no resource type has the column %%', p_resource_column
                    USING ERRCODE = 'undefined_column', HINT = '42703';
            END IF;
            SELECT n.outcome INTO outcome
            FROM tenant.idempotency_complete_on_node(
                p_user, p_key, p_token, p_response, p_not_stored, p_error, p_metadata, p_retention, p_resource_column, p_resource
            ) n (outcome);
        END
        $complete$
        $procedure$,
        v_known
    );

    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION tenant.idempotency_commit_on_node(
            p_user            uuid,
            p_key             uuid,
            p_token           uuid,
            p_procedure       text,
            p_request_hash    bytea,
            p_arrival_hash    bytea,
            p_lease           double precision,
            p_on_lease_ended  text,
            p_on_foreign      text,
            p_response        bytea,
            p_not_stored      boolean,
            p_error           bytea,
            p_metadata        bytea,
            p_retention       double precision,
            p_resource_column text,
            p_resource        text,
            p_id              uuid,
            p_seen            text -- the row that the record may replace; NULL for none
        ) RETURNS boolean
        LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $commit$
        DECLARE
            v_now timestamptz;
            v_expires timestamptz;
            k tenant.idempotency_keys;
        BEGIN
            PERFORM set_config('idempotency.owner', p_user::text, true);
            FOR v_round IN 1..2 LOOP
                v_now := clock_timestamp();
                v_expires := v_now + make_interval(secs => p_retention);
                INSERT INTO tenant.idempotency_keys
                    (id, idempotency_key, user_id, token, procedure, request_hash, arrival_hash, response_bytes,
                     response_metadata, response_not_stored, error_bytes, completed, expires %s)
                VALUES (p_id, p_key, p_user, p_token, p_procedure, p_request_hash, p_arrival_hash, p_response, p_metadata,
                        p_not_stored, p_error, v_now, v_expires %s)
                ON CONFLICT (idempotency_key, user_id) DO NOTHING;
                IF FOUND THEN
                    RETURN true;
                END IF;

                -- Locked, so that it does not change between the decision and its deletion.
                SELECT x.* INTO k FROM tenant.idempotency_keys x
                WHERE x.idempotency_key = p_key AND x.user_id = p_user
                FOR UPDATE;
                EXIT WHEN k.id IS NULL OR concat(k.id, ' ', k.token) IS DISTINCT FROM p_seen;
                v_now := clock_timestamp();
                EXIT WHEN (
                    k.expires <= v_now
                    OR (k.response_bytes IS NULL
                        AND k.error_bytes IS NULL
                        AND k.procedure = p_procedure
                        AND tenant.idempotency_same_request(k.request_hash, k.arrival_hash, p_request_hash, p_arrival_hash)
                        AND CASE WHEN k.lease_expires IS NULL
                                 THEN p_on_foreign <> 'in_progress' AND k.created + make_interval(secs => p_lease) <= v_now
                                 ELSE p_on_lease_ended <> 'refuse'
                                      AND (NOT k.outcome_unknown OR p_on_lease_ended = 'reconcile')
                                      AND k.lease_expires <= v_now
                            END)
                ) IS NOT TRUE;
                DELETE FROM tenant.idempotency_keys x
                WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.id = k.id;
            END LOOP;

            RAISE EXCEPTION 'another call with this idempotency key was recorded or has reserved the key'
                USING ERRCODE = 'TI001', HINT = 'TI001';
        END
        $commit$
        $function$,
        v_columns, v_values
    );

    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION tenant.idempotency_commit(
            p_user            uuid,
            p_key             uuid,
            p_token           uuid,
            p_procedure       text,
            p_request_hash    bytea,
            p_arrival_hash    bytea,
            p_lease           double precision,
            p_on_lease_ended  text,
            p_on_foreign      text,
            p_response        bytea,
            p_not_stored      boolean,
            p_error           bytea,
            p_metadata        bytea,
            p_retention       double precision,
            p_resource_column text,
            p_resource        text,
            p_id              uuid
        ) RETURNS void
        LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $commit$
        DECLARE
            v_seen CONSTANT text := nullif(current_setting('app.idempotency_seen', true), '');
            v_done boolean;
        BEGIN
            IF p_resource_column <> ALL (ARRAY[''%s]) THEN
                RAISE EXCEPTION 'no resource type has the column %%', p_resource_column
                    USING ERRCODE = 'undefined_column', HINT = '42703';
            END IF;
            IF current_setting('app.idempotency_token', true) IS DISTINCT FROM p_token::text THEN
                RAISE EXCEPTION 'the handler ended the transaction that the layer began for the call; it must not commit or roll back'
                    USING ERRCODE = 'TI002', HINT = 'TI002';
            END IF;
            SELECT n.done INTO v_done
            FROM tenant.idempotency_commit_on_node(
                p_user, p_key, p_token, p_procedure, p_request_hash, p_arrival_hash, p_lease, p_on_lease_ended, p_on_foreign,
                p_response, p_not_stored, p_error, p_metadata, p_retention, p_resource_column, p_resource, p_id, v_seen
            ) n (done);
        END
        $commit$
        $function$,
        v_known
    );
END
$write$;

-- One call to the node, for the reason that tenant.idempotency_committed (V4) gives. The record is looked for by a statement of its own,
-- after the lock, which sees what was committed before: the procedure chooses the isolation level for that.
CREATE OR REPLACE FUNCTION tenant.idempotency_committed_on_node(
    p_user uuid, p_key uuid, p_token uuid, OUT committed boolean
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $committed$
DECLARE
    v_set CONSTANT text := tenant.idempotency_act_on_node(p_user);
    v_ended CONSTANT boolean := pg_try_advisory_xact_lock(tenant.idempotency_lock_id(p_user, p_key));
    k tenant.idempotency_keys;
BEGIN
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
$committed$;

CREATE OR REPLACE PROCEDURE tenant.idempotency_committed(p_user uuid, p_key uuid, p_token uuid, OUT committed boolean)
LANGUAGE plpgsql AS $committed$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    v_set := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    SELECT n.committed INTO committed FROM tenant.idempotency_committed_on_node(p_user, p_key, p_token) n (committed);
END
$committed$;

-- What is recorded of a key, and which connection of its node holds it: for tenant.idempotency_look_up (V8), whose states these
-- are, without the status of the resource, and for tenant.idempotency_inspect (V7).
CREATE OR REPLACE FUNCTION tenant.idempotency_look_up_on_node(
    p_user uuid,
    p_key  uuid,
    OUT state         text, -- tenant.idempotency_state; NULL for no record
    OUT procedure     text,
    OUT created       timestamptz,
    OUT completed     timestamptz,
    OUT expires       timestamptz,
    OUT lease_expires timestamptz,
    OUT token         uuid,
    OUT attempts      integer,
    OUT resource_type text,
    OUT resource      text,
    OUT holder_pid    integer, -- of the connection whose transaction holds the key; NULL for none
    OUT holder_since  timestamptz
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $look_up$
DECLARE
    v_set CONSTANT text := tenant.idempotency_act_on_node(p_user);
    k tenant.idempotency_keys;
BEGIN
    FOR v_round IN 1..2 LOOP
        SELECT x.* INTO k FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user;
        IF k.id IS NOT NULL THEN
            state := tenant.idempotency_state(k, NULL, NULL);
        END IF;
        EXIT WHEN v_round = 2 OR state IN ('completed', 'not_stored', 'failed', 'reserved');
        state := NULL;
        holder_pid := tenant.idempotency_holder_pid(tenant.idempotency_lock_id(p_user, p_key));
    END LOOP;
    procedure := k.procedure;
    created := k.created;
    completed := k.completed;
    expires := k.expires;
    lease_expires := k.lease_expires;
    token := k.token;
    attempts := k.attempts;
    IF k.id IS NOT NULL THEN
        resource_type := tenant.idempotency_resource_type(k);
        resource := tenant.idempotency_resource_id(k);
    END IF;
    holder_since := (SELECT a.xact_start FROM pg_stat_get_activity(holder_pid) a WHERE holder_pid IS NOT NULL);
END
$look_up$;

CREATE OR REPLACE PROCEDURE tenant.idempotency_look_up(
    p_user      uuid,
    p_key       uuid,
    p_status_of text[],
    p_app_user  uuid,
    p_settings  text[],
    OUT state         text,
    OUT procedure     text,
    OUT created       bigint,
    OUT completed     bigint,
    OUT expires       bigint,
    OUT resource_type text,
    OUT resource      text,
    OUT status        text,
    OUT status_error  text
)
LANGUAGE plpgsql AS $look_up$
DECLARE
    v_set pg_catalog.text;
    v_found record;
    v_status record;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_as(p_user, p_app_user);
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    SELECT n.* INTO v_found FROM tenant.idempotency_look_up_on_node(p_user, p_key) n;
    state := v_found.state;
    procedure := v_found.procedure;
    created := tenant.idempotency_microseconds(v_found.created);
    completed := tenant.idempotency_microseconds(v_found.completed);
    expires := tenant.idempotency_microseconds(v_found.expires);

    IF state IN ('completed', 'not_stored') THEN
        state := 'completed';
        resource_type := v_found.resource_type;
        resource := v_found.resource;
        IF resource_type = ANY (p_status_of) THEN
            IF p_settings IS NOT NULL THEN
                PERFORM tenant.idempotency_set(p_settings);
            END IF;
            v_status := tenant.idempotency_soft_status(resource_type, resource);
            status := v_status.status;
            status_error := v_status.status_error;
        END IF;
        RETURN;
    END IF;
    IF state = 'reserved' THEN
        state := 'running';
    ELSIF state IS DISTINCT FROM 'failed' AND v_found.holder_pid IS NOT NULL THEN
        IF state IS NULL OR state = 'expired' THEN
            procedure := NULL;
            expires := NULL;
            completed := NULL;
            created := tenant.idempotency_microseconds(v_found.holder_since);
        END IF;
        state := 'running';
    ELSIF state = 'abandoned' THEN
        state := 'unknown';
    END IF;
    state := coalesce(state, 'absent');
END
$look_up$;

-- The other statements for several calls (V9), whose rows are on several nodes: they do nothing, and say nothing of any call, so
-- that each goes alone.
CREATE OR REPLACE PROCEDURE tenant.idempotency_write_many(
    p_users            uuid[],
    p_keys             uuid[],
    p_tokens           uuid[],
    p_procedures       text[],
    p_request_hashes   bytea[],
    p_arrival_hashes   bytea[],
    p_leases           double precision[],
    p_retentions       double precision[],
    p_effects_are_here boolean,
    p_app_users        uuid[],
    p_settings         text[],
    p_until            double precision,
    p_done_users       uuid[],
    p_done_keys        uuid[],
    p_done_tokens      uuid[],
    p_responses        bytea[],
    p_not_stored       boolean[],
    p_errors           bytea[],
    p_metadata         bytea[],
    p_done_retentions  double precision[],
    p_resource_columns text[],
    p_resources        text[],
    OUT reserved       bytea,
    OUT completed      bytea,
    OUT clock          double precision
)
LANGUAGE plpgsql AS $write_many$
BEGIN
    COMMIT;
END
$write_many$;

-- usage (V11), on the node. The allowances are on the coordinator.
CREATE OR REPLACE FUNCTION tenant.idempotency_usage_on_node(
    p_user uuid, p_most bigint, p_with_bytes boolean, OUT records bigint, OUT bytes bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off AS $usage$
DECLARE
    v_set CONSTANT text := tenant.idempotency_act_on_node(p_user);
    v_now CONSTANT timestamptz := clock_timestamp();
BEGIN
    bytes := 0;
    IF p_with_bytes THEN
        SELECT count(*), coalesce(sum(r.size), 0) INTO records, bytes
        FROM (
            SELECT coalesce(octet_length(k.response_bytes), 0) + coalesce(octet_length(k.response_metadata), 0)
                   + coalesce(octet_length(k.error_bytes), 0) AS size
            FROM tenant.idempotency_keys k
            WHERE k.user_id = p_user AND k.expires > v_now
            ORDER BY k.expires
            LIMIT p_most
        ) r;
    ELSE
        SELECT count(*) INTO records
        FROM (
            SELECT 1 FROM tenant.idempotency_keys k
            WHERE k.user_id = p_user AND k.expires > v_now
            ORDER BY k.expires
            LIMIT p_most
        ) e;
    END IF;
END
$usage$;

CREATE OR REPLACE FUNCTION tenant.idempotency_usage(
    p_user uuid, p_most bigint, p_with_bytes boolean, OUT records bigint, OUT bytes bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $usage$
BEGIN
    IF NOT tenant.idempotency_finds_users() THEN
        RAISE EXCEPTION 'the records of a user cannot be counted: no index of tenant.idempotency_keys is led by user_id and expires'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'CREATE INDEX my_index ON tenant.idempotency_keys (user_id, expires)';
    END IF;
    SELECT n.records, n.bytes INTO records, bytes
    FROM tenant.idempotency_usage_on_node(p_user, p_most, p_with_bytes) n;
END
$usage$;

-- The sweep and the recovery ask all nodes, as the table's owner. Each setting that gives them sight is sent to the nodes.
--
-- A statement for all nodes does not pass over rows that another one has locked. So a sweep that meets another one leaves the work to it. Each
-- batch begins with the longest expired rows: there is no `reached`.
--
-- Citus sends the settings with the transaction that it begins on the nodes. It begins none for a single query of a function, but does for one
-- whose results it keeps: so the recovery's queries are materialized.
CREATE OR REPLACE FUNCTION tenant.idempotency_sweep_rows(p_batch integer, OUT deleted bigint, INOUT reached text DEFAULT NULL)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $sweep_rows$
DECLARE
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    v_now CONSTANT timestamptz := now();
    v_users uuid[];
    v_ids uuid[];
BEGIN
    deleted := 0;
    reached := NULL;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('the sweep of tenant.idempotency_keys', 0)) THEN
        RETURN;
    END IF;
    PERFORM tenant.idempotency_set(ARRAY[
        'idempotency.owner', '00000000-0000-0000-0000-000000000000',
        'app.current_user_id', '00000000-0000-0000-0000-000000000000',
        'app.idempotency_sight', 'sweep'
    ]);

    SELECT array_agg(DISTINCT o.user_id), array_agg(o.id)
    INTO v_users, v_ids
    FROM (
        SELECT k.user_id, k.id FROM tenant.idempotency_keys k WHERE k.expires <= v_now ORDER BY k.expires LIMIT p_batch
    ) o;
    -- The id says which rows; the users, on which nodes they are.
    IF v_ids IS NOT NULL THEN
        DELETE FROM tenant.idempotency_keys k
        WHERE k.user_id = ANY (v_users) AND k.id = ANY (v_ids) AND k.expires <= v_now;
        GET DIAGNOSTICS deleted = ROW_COUNT;
    END IF;
    IF deleted < p_batch THEN
        DELETE FROM tenant.idempotency_allowances a WHERE a.until <= v_now - interval '1 hour';
    END IF;

    PERFORM tenant.idempotency_set(ARRAY[
        'app.idempotency_sight', '', 'app.current_user_id', v_user, 'idempotency.owner', v_owner
    ]);
END
$sweep_rows$;

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
SET search_path = pg_catalog, pg_temp AS $abandoned$
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
    PERFORM tenant.idempotency_set(ARRAY[
        'idempotency.owner', '00000000-0000-0000-0000-000000000000',
        'app.current_user_id', '00000000-0000-0000-0000-000000000000',
        'app.idempotency_sight', 'recovery'
    ]);

    WHILE v_left > 0 LOOP
        v_last := (
            SELECT p.id FROM (
                SELECT k.id FROM tenant.idempotency_keys k WHERE k.id > v_after ORDER BY k.id LIMIT 5000
            ) p
            ORDER BY p.id DESC LIMIT 1
        );
        EXIT WHEN v_last IS NULL;

        RETURN QUERY
        WITH found AS MATERIALIZED (
            SELECT k.id, k.user_id, k.idempotency_key, k.procedure, k.request_hash, k.arrival_hash
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
            LIMIT v_left
        )
        SELECT f.user_id, f.idempotency_key, f.procedure, f.request_hash, f.arrival_hash, NULL::uuid FROM found f ORDER BY f.id;
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_left := v_left - v_rows;
        v_after := v_last;

        IF v_left > 0 AND clock_timestamp() > v_ends THEN
            RETURN QUERY SELECT NULL::uuid, NULL::uuid, NULL::text, NULL::bytea, NULL::bytea, v_last;
            EXIT;
        END IF;
    END LOOP;

    PERFORM tenant.idempotency_set(ARRAY[
        'app.idempotency_sight', '', 'app.current_user_id', v_user, 'idempotency.owner', v_owner
    ]);
END
$abandoned$;

-- The operators' functions (V7). A holder is a connection of the node that has the key's row.
CREATE OR REPLACE FUNCTION tenant.idempotency_stuck(
    p_lookback interval DEFAULT interval '1 day', p_limit integer DEFAULT 100
) RETURNS TABLE (
    state     text,
    key_id    uuid,
    owner     uuid,
    procedure text,
    token     uuid,
    attempts  integer,
    created   timestamptz,
    expires   timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $stuck$
DECLARE
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    -- In milliseconds since 1970. greatest() ignores NULL.
    v_since CONSTANT bigint := 1000 * greatest(0, date_part('epoch', clock_timestamp()) - date_part('epoch', p_lookback));
    v_first CONSTANT uuid := encode(substring(int8send(v_since) FROM 3) || decode('00000000000000000000', 'hex'), 'hex')::uuid;
BEGIN
    INSERT INTO tenant.idempotency_audit (action) VALUES ('list');
    PERFORM tenant.idempotency_set(ARRAY[
        'idempotency.owner', '00000000-0000-0000-0000-000000000000',
        'app.current_user_id', '00000000-0000-0000-0000-000000000000',
        'app.idempotency_sight', 'recovery'
    ]);

    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT k.id, k.outcome_unknown, k.idempotency_key, k.user_id, k.procedure, k.token, k.attempts, k.created, k.expires
        FROM tenant.idempotency_keys k
        WHERE k.id >= v_first
          AND k.response_bytes IS NULL
          AND k.error_bytes IS NULL
          AND k.lease_expires <= now()
          AND k.expires > now()
        ORDER BY k.id
        LIMIT p_limit
    )
    SELECT CASE WHEN f.outcome_unknown THEN 'unknown' ELSE 'abandoned' END, f.idempotency_key, f.user_id, f.procedure, f.token,
           f.attempts, f.created, f.expires
    FROM found f ORDER BY f.id;

    PERFORM tenant.idempotency_set(ARRAY[
        'app.idempotency_sight', '', 'app.current_user_id', v_user, 'idempotency.owner', v_owner
    ]);
END
$stuck$;

CREATE OR REPLACE FUNCTION tenant.idempotency_inspect(
    p_key   text,
    p_user  text,
    p_scope text DEFAULT NULL,
    OUT state              text,
    OUT procedure          text,
    OUT token              uuid,
    OUT lease_left         interval,
    OUT attempts           integer,
    OUT created            timestamptz,
    OUT expires            timestamptz,
    OUT resource           text,
    OUT holder_pid         integer,
    OUT holder_application text,
    OUT holder_since       timestamptz,
    OUT key_id             uuid,
    OUT owner              uuid
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $inspect$
DECLARE
    v_record record;
BEGIN
    key_id := tenant.idempotency_key_id(p_key);
    owner := tenant.idempotency_owner(p_scope, p_user);
    IF key_id IS NULL OR owner IS NULL THEN
        RAISE EXCEPTION 'the key and the user are needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    SELECT n.* INTO v_record FROM tenant.idempotency_look_up_on_node(owner, key_id) n;

    state := coalesce(nullif(v_record.state, 'expired'), 'absent');
    IF state <> 'absent' THEN
        procedure := v_record.procedure;
        token := v_record.token;
        attempts := v_record.attempts;
        created := v_record.created;
        expires := v_record.expires;
        resource := v_record.resource;
    END IF;
    IF state = 'reserved' THEN
        lease_left := v_record.lease_expires - clock_timestamp();
    END IF;
    IF v_record.holder_pid IS NOT NULL AND state IN ('absent', 'abandoned', 'unknown') THEN
        state := 'running';
        holder_pid := v_record.holder_pid;
        holder_application := 'on ' || (
            SELECT concat(d.nodename, ':', d.nodeport)
            FROM pg_dist_placement p
            JOIN pg_dist_node d ON d.groupid = p.groupid AND d.noderole = 'primary'
            WHERE p.shardid = get_shard_id_for_distribution_column('tenant.idempotency_keys', owner)
        );
        holder_since := v_record.holder_since;
    END IF;

    INSERT INTO tenant.idempotency_audit (action, idempotency_key, user_id, procedure, token, state)
    VALUES ('inspect', key_id, owner, procedure, token, state);
END
$inspect$;

CREATE OR REPLACE FUNCTION tenant.idempotency_operator_release_on_node(
    p_user  uuid,
    p_key   uuid,
    p_token uuid,
    OUT outcome    text,
    OUT state      text, -- before; NULL for no record
    OUT procedure  text,
    OUT holder_pid integer
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $release$
DECLARE
    v_set CONSTANT text := tenant.idempotency_act_on_node(p_user);
    v_lock CONSTANT bigint := tenant.idempotency_lock_id(p_user, p_key);
    v_held CONSTANT boolean := pg_try_advisory_xact_lock(v_lock);
    k tenant.idempotency_keys;
BEGIN
    SELECT x.* INTO k FROM tenant.idempotency_keys x
    WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.expires > now()
    FOR UPDATE;
    IF k.id IS NOT NULL THEN
        state := tenant.idempotency_state(k, NULL, NULL);
        procedure := k.procedure;
    END IF;
    -- The lock's holder may be a replay that has not ended yet.
    IF state IN ('completed', 'not_stored', 'failed') THEN
        outcome := state;
    ELSIF NOT v_held THEN
        outcome := 'running';
        holder_pid := tenant.idempotency_holder_pid(v_lock);
    ELSIF state IS NULL THEN
        outcome := 'absent';
    ELSIF k.token IS DISTINCT FROM p_token THEN
        outcome := 'other_token';
    ELSE
        DELETE FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.id = k.id;
        outcome := 'released';
    END IF;
END
$release$;

CREATE OR REPLACE FUNCTION tenant.idempotency_operator_release(
    p_key    text,
    p_user   text,
    p_token  uuid,
    p_scope  text DEFAULT NULL,
    p_reason text DEFAULT NULL,
    OUT outcome    text,
    OUT holder_pid integer,
    OUT hint       text
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $release$
DECLARE
    v_key CONSTANT uuid := tenant.idempotency_key_id(p_key);
    v_of CONSTANT uuid := tenant.idempotency_owner(p_scope, p_user);
    v_node CONSTANT text := (
        SELECT concat(d.nodename, ':', d.nodeport)
        FROM pg_dist_placement p
        JOIN pg_dist_node d ON d.groupid = p.groupid AND d.noderole = 'primary'
        WHERE p.shardid = get_shard_id_for_distribution_column('tenant.idempotency_keys', v_of)
    );
    v_found record;
BEGIN
    IF v_key IS NULL OR v_of IS NULL THEN
        RAISE EXCEPTION 'the key and the user are needed' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF octet_length(p_reason) > 4000 THEN
        RAISE EXCEPTION 'the reason is longer than 4000 bytes' USING ERRCODE = 'string_data_right_truncation';
    END IF;
    SELECT n.* INTO v_found FROM tenant.idempotency_operator_release_on_node(v_of, v_key, p_token) n;
    outcome := v_found.outcome;
    holder_pid := v_found.holder_pid;
    hint := CASE outcome
        WHEN 'released' THEN 'A retry runs the handler. A call that still runs cannot record its outcome.'
        WHEN 'absent' THEN 'There is nothing to release: a call with this key runs the handler.'
        WHEN 'other_token' THEN 'Another call holds the key: inspect it again.'
        WHEN 'running' THEN concat(
            'A transaction is open for the key. Wait until it has ended, or end it on ', v_node,
            ': SELECT pg_terminate_backend(', holder_pid, ')'
        )
        ELSE 'The call has an outcome, which a retry gets. It is not released.'
    END;

    INSERT INTO tenant.idempotency_audit (action, idempotency_key, user_id, procedure, token, state, outcome, reason)
    VALUES ('release', v_key, v_of, v_found.procedure, p_token,
            CASE WHEN outcome = 'running' THEN outcome ELSE coalesce(v_found.state, 'absent') END, outcome, p_reason);
END
$release$;

-- The rights go to the nodes with the functions. A function that was just created can be executed by everybody.
DO $nodes$
DECLARE
    v_schema CONSTANT oid := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass);
    v_routine regprocedure;
    v_role name;
BEGIN
    FOR v_routine IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = v_schema AND starts_with(p.proname, 'idempotency_')
          AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0)
    LOOP
        EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', v_routine);
    END LOOP;

    -- What the counterparts call.
    FOR v_routine IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = v_schema
          AND p.proname IN (
              'idempotency_act_on_node', 'idempotency_holder_pid', 'idempotency_lock_id',
              'idempotency_milliseconds_until', 'idempotency_needs_primary', 'idempotency_resource_id',
              'idempotency_resource_type', 'idempotency_same_request', 'idempotency_seed', 'idempotency_state'
          )
    LOOP
        PERFORM create_distributed_function(v_routine);
    END LOOP;

    -- The counterparts: the whole call goes to the node of its first argument, also in a transaction.
    FOR v_routine IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = v_schema AND p.proname LIKE 'idempotency!_%!_on!_node' ESCAPE '!'
          AND p.proname <> 'idempotency_act_on_node'
    LOOP
        PERFORM create_distributed_function(
            v_routine, 'p_user', colocate_with => 'tenant.idempotency_keys', force_delegation => true
        );
    END LOOP;

    -- The roles that had the rights of the API's own role have them still.
    FOR v_role IN
        SELECT DISTINCT pg_get_userbyid(a.grantee)
        FROM pg_proc p
        CROSS JOIN aclexplode(p.proacl) a
        WHERE p.pronamespace = v_schema AND p.proname = 'idempotency_version' AND a.grantee NOT IN (0, p.proowner)
    LOOP
        PERFORM tenant.idempotency_grant(v_role);
    END LOOP;
END
$nodes$;

RESET citus.multi_shard_modify_mode;
SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('app.idempotency_search_path'), false);
