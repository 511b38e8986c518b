-- The protocol: claim, extend, complete, release, abandon, sweep and status. Each is one procedure, and so one statement
-- for the client: one network round trip, no session state, and nothing left open when the client disconnects. The
-- procedures run with the caller's privileges, under row-level security, as the owner in their first parameter: p_user is what
-- the column user_id holds. They set it as `idempotency.owner`. Those that read nothing but the table also set it as
-- `app.current_user_id`, which other policies of an adopted table may ask for; in the others, that is the application's user.
--
-- Every transition is one guarded statement. The database's clock decides leases and expiry.
--
-- An attempt to claim a key may arrive after its call has given it up, has claimed the key with another attempt, and has released it:
-- nobody would hold what it reserves. So each has a time, p_until, after which it changes nothing. It is in seconds of this clock, which
-- the client reads off earlier answers (`clock`).
--
-- A procedure is a transaction of its own. Each begins with COMMIT, which ends nothing, but fails inside of a transaction
-- block (SQLSTATE 2D000): a reservation made in a transaction that someone left open on the connection would be lost
-- with it. (A function cannot tell: in the extended protocol transaction_timestamp() and statement_timestamp() differ even
-- for the only statement of a transaction.) A procedure that commits cannot have a SET clause, so each sets its
-- search_path next, for its transaction (tenant.idempotency_act_as); what comes before and the types of its variables are
-- qualified.

-- Names mean PostgreSQL's own, whatever the role's search_path is. The last statement restores it.
SELECT pg_catalog.set_config('app.idempotency_search_path', pg_catalog.current_setting('search_path'), false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);

-- Two functions that can be replaced later, and are therefore created only if they do not exist.
DO $hooks$
BEGIN
    -- Returns the id of the created resource of a row, as a text: ids may be UUIDs, integers or texts.
    -- tenant.idempotency_register_resource replaces it.
    IF to_regprocedure('tenant.idempotency_resource_id(tenant.idempotency_keys)') IS NULL THEN
        CREATE FUNCTION tenant.idempotency_resource_id(k tenant.idempotency_keys) RETURNS text
        LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $id$ SELECT NULL::pg_catalog.text $id$;
    END IF;

    -- Returns the newest outbox status of a resource: pending, retrying, completed or failed; NULL if it is not known.
    -- An application with an outbox replaces this function with its own look-up. It runs with the search_path
    -- `pg_catalog, pg_temp`. The id is a text: `p_resource::uuid` is that of a resource whose table has UUIDs.
    IF to_regprocedure('tenant.idempotency_resource_status(text, text)') IS NULL THEN
        CREATE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text) RETURNS text
        LANGUAGE sql STABLE PARALLEL SAFE
        RETURN NULL::text;
    END IF;
END
$hooks$;

-- Sets the application's settings for this transaction: names and values in turn. Returns how many these are. (An SQL function with a
-- sub-select would not be inlined, and be planned anew in each transaction.)
CREATE OR REPLACE FUNCTION tenant.idempotency_set(p_settings text[]) RETURNS bigint
LANGUAGE plpgsql AS $set$
DECLARE
    v_set pg_catalog.text; -- an assignment costs less than PERFORM
BEGIN
    FOR v_item IN 1..pg_catalog.cardinality(p_settings) BY 2 LOOP
        v_set := pg_catalog.set_config(p_settings[v_item], p_settings[v_item OPERATOR(pg_catalog.+) 1], true);
    END LOOP;
    RETURN pg_catalog.cardinality(p_settings);
END
$set$;

-- Returns the state of a row, for the call with this token:
--
--   expired     treated as absent
--   completed   has a response
--   not_stored  completed, but the response was too large to store
--   failed      has the error that ended the operation
--   unknown     the call ended, and it is not known whether it took effect
--   acquired    reserved with this token
--   taken_over  reserved with this token, after the lease of another token ended without an outcome
--   reserved    reserved with another token, whose lease has not ended
--   abandoned   reserved with another token, whose lease ended without an outcome
--
-- A claim may also be `late`: it has changed nothing, because its time was over.
--
-- A reservation of the Go interceptor has no lease. `p_foreign_lease` is the one that the caller gives it, counted from its
-- creation; with NULL it is reserved until it expires.
CREATE OR REPLACE FUNCTION tenant.idempotency_state(
    k tenant.idempotency_keys, p_token uuid, p_foreign_lease interval
) RETURNS text
LANGUAGE sql VOLATILE
RETURN CASE
    WHEN k.expires <= clock_timestamp() THEN 'expired'
    WHEN k.response_not_stored THEN 'not_stored'
    WHEN k.response_bytes IS NOT NULL THEN 'completed'
    WHEN k.error_bytes IS NOT NULL THEN 'failed'
    WHEN k.token = p_token AND k.attempts = 1 THEN 'acquired'
    WHEN k.token = p_token THEN 'taken_over'
    WHEN coalesce(k.lease_expires, k.created + p_foreign_lease, k.expires) > clock_timestamp() THEN 'reserved'
    WHEN k.outcome_unknown THEN 'unknown'
    ELSE 'abandoned'
END;

-- Returns whether two requests are the same: whether any hash of the one equals any of the other. The first two are of a
-- row.
CREATE OR REPLACE FUNCTION tenant.idempotency_same_request(
    p_recorded_hash bytea, p_recorded_arrival bytea, p_request_hash bytea, p_arrival_hash bytea
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY[p_recorded_hash, p_recorded_arrival] && ARRAY[p_request_hash, p_arrival_hash]; -- NULL equals nothing

-- Returns the time until p_time in whole milliseconds, limited to a hundred years; negative if p_time is in the past.
CREATE OR REPLACE FUNCTION tenant.idempotency_milliseconds_until(p_time timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL SAFE
RETURN floor(1000 * greatest(-3155760000, least(3155760000, date_part('epoch', p_time) - date_part('epoch', clock_timestamp()))));

-- Returns the status of a resource for a replay. An error does not fail the replay: the SQLSTATE is returned in
-- `status_error`. Waits at most 250 ms for a locked outbox. Its plans are the application's.
CREATE OR REPLACE FUNCTION tenant.idempotency_soft_status(
    p_resource_type text, p_resource text, OUT status text, OUT status_error text
)
LANGUAGE plpgsql
SET lock_timeout = '250ms'
SET plan_cache_mode = auto AS $soft$
BEGIN
    status := tenant.idempotency_resource_status(p_resource_type, p_resource);
EXCEPTION WHEN query_canceled OR OTHERS THEN
    status := NULL;
    status_error := SQLSTATE;
END
$soft$;

-- Makes the rest of a transaction run with the records of this owner, as this user of the application, with PostgreSQL's
-- own names, and with plans that are made once: a record is found by its key and user, whichever these are, and to plan a statement on a
-- table with partitions anew takes several times as long as to run it. Inlined, so that it costs nothing. (NULL is nobody.)
CREATE OR REPLACE FUNCTION tenant.idempotency_act_as(p_owner uuid, p_app_user uuid) RETURNS text
LANGUAGE sql VOLATILE
RETURN set_config('search_path', 'pg_catalog, pg_temp', true)
    || set_config('plan_cache_mode', 'force_generic_plan', true)
    || set_config('idempotency.owner', coalesce(p_owner::text, ''), true)
    || set_config('app.current_user_id', coalesce(p_app_user::text, ''), true);

-- Fails as a write does on a standby, and in any other transaction that is read-only. Each function that gives an answer about a key
-- calls it there. A standby may lack the last of what its primary has. It may also have what a failover takes back: as a former
-- primary that is not rewound yet, or as a standby that was ahead of the synchronous one.
CREATE OR REPLACE FUNCTION tenant.idempotency_needs_primary() RETURNS text
LANGUAGE plpgsql AS $needs_primary$
BEGIN
    RAISE EXCEPTION 'cannot decide on an idempotency key in a read-only transaction'
        USING ERRCODE = 'read_only_sql_transaction',
              HINT = 'The server is a standby, or the role has default_transaction_read_only. Connect to the primary.';
END
$needs_primary$;

-- claim: absent -> reserved. Returns 'acquired' or 'taken_over', or the state of the existing row
-- (tenant.idempotency_state).
--
-- For any state except `acquired` and `taken_over`, the caller first compares `recorded_procedure`, `recorded_hash` and
-- `recorded_arrival` with its own. A takeover leaves them as they are.
--
-- Looks for the row first, so that a retry writes nothing, and reads it only if there is one: a query costs by its expressions,
-- evaluated or not. Each statement sees everything committed before the statement began (READ COMMITTED): if a row
-- appears between two statements, the next one finds it; if it disappears, the loop starts again.
--
-- If the handler's effect is in this server, the reservation need not be on disk before the handler runs: the effect's
-- COMMIT comes later in the same log and flushes the reservation with it. If a crash loses a takeover, the earlier
-- reservation remains, with its ended lease.
CREATE OR REPLACE PROCEDURE tenant.idempotency_claim(
    p_user           uuid,
    p_key            uuid,
    p_token          uuid,
    p_procedure      text,
    p_request_hash   bytea,
    p_arrival_hash   bytea, -- of the request as it arrived; NULL if it is p_request_hash
    p_lease          double precision, -- seconds
    p_retention      double precision, -- seconds
    p_on_lease_ended text, -- for the same request without an outcome: 'rerun' and 'reconcile' take over, 'refuse' does not
    p_on_foreign     text, -- for a reservation without a lease: 'in_progress' until it expires; 'rerun' and 'reconcile' give
                           -- it the lease p_lease, and then take over
    p_resource_type  text, -- the type of the resource whose status a replay reports; NULL for none
    p_effect_is_here boolean, -- whether the handler's effect is committed in this server and nowhere else
    p_app_user       uuid, -- the application's user, for the look-up of the status; NULL for none
    p_settings       text[], -- the application's settings, for the same (tenant.idempotency_set); NULL for none
    p_until          double precision, -- the time after which this claim reserves nothing, in seconds since 1970
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
    v_until CONSTANT pg_catalog.timestamptz := pg_catalog.to_timestamp(p_until);
    v_set pg_catalog.text; -- an assignment costs less than PERFORM
    v_lease interval;
    v_foreign_lease interval; -- NULL for none
    v_policy pg_catalog.text; -- the one of this row
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
    IF p_effect_is_here THEN
        v_set := set_config('synchronous_commit', 'off', true);
    END IF;
    v_lease := make_interval(secs => p_lease);
    IF p_on_foreign <> 'in_progress' THEN
        v_foreign_lease := v_lease;
    END IF;
    clock := date_part('epoch', clock_timestamp());

    FOR v_round IN 1..16 LOOP
        PERFORM FROM tenant.idempotency_keys k WHERE k.idempotency_key = p_key AND k.user_id = p_user;
        IF NOT FOUND THEN
            IF clock_timestamp() > v_until THEN
                state := 'late';
                RETURN;
            END IF;
            INSERT INTO tenant.idempotency_keys
                (idempotency_key, user_id, procedure, request_hash, arrival_hash, token, lease_expires, expires)
            SELECT
                p_key, p_user, p_procedure, p_request_hash, p_arrival_hash, p_token, clock_timestamp() + v_lease,
                clock_timestamp() + make_interval(secs => greatest(p_lease, p_retention))
            WHERE clock_timestamp() <= v_until
            ON CONFLICT (idempotency_key, user_id) DO NOTHING;
            IF FOUND THEN
                state := 'acquired';
                RETURN;
            END IF;
        END IF;

        SELECT tenant.idempotency_state(k, p_token, v_foreign_lease), k.procedure, k.request_hash, k.arrival_hash,
               k.response_bytes, k.response_metadata, k.error_bytes, tenant.idempotency_resource_id(k),
               tenant.idempotency_milliseconds_until(coalesce(k.lease_expires, k.created + v_foreign_lease, k.expires)),
               tenant.idempotency_milliseconds_until(k.expires),
               CASE WHEN k.lease_expires IS NULL THEN p_on_foreign ELSE p_on_lease_ended END
        INTO state, recorded_procedure, recorded_hash, recorded_arrival, response, metadata, error, resource,
             lease_left_ms, expires_in_ms, v_policy
        FROM tenant.idempotency_keys k
        WHERE k.idempotency_key = p_key AND k.user_id = p_user;

        IF state IN ('acquired', 'taken_over') THEN
            -- Of an earlier attempt, which may not have waited for a synchronous standby. This one does, because it writes as well.
            UPDATE tenant.idempotency_keys k
            SET lease_expires = clock_timestamp() + v_lease
            WHERE k.idempotency_key = p_key
              AND k.user_id = p_user
              AND k.token = p_token
              AND k.response_bytes IS NULL
              AND k.error_bytes IS NULL
              AND k.lease_expires > 'epoch';
        ELSIF state = 'expired' THEN
            state := NULL;
            DELETE FROM tenant.idempotency_keys k
            WHERE k.idempotency_key = p_key
              AND k.user_id = p_user
              AND k.expires <= clock_timestamp();
        ELSIF state IN ('abandoned', 'unknown')
              AND v_policy <> 'refuse'
              AND (state = 'abandoned' OR v_policy = 'reconcile')
              AND recorded_procedure = p_procedure
              AND tenant.idempotency_same_request(recorded_hash, recorded_arrival, p_request_hash, p_arrival_hash) THEN
            IF clock_timestamp() > v_until THEN
                state := 'late';
                RETURN;
            END IF;
            state := NULL;
            UPDATE tenant.idempotency_keys k
            SET token         = p_token,
                lease_expires = clock_timestamp() + v_lease,
                expires       = clock_timestamp() + make_interval(secs => greatest(p_lease, p_retention)),
                attempts      = k.attempts + 1
            WHERE k.idempotency_key = p_key
              AND k.user_id = p_user
              AND k.procedure = p_procedure
              AND tenant.idempotency_same_request(k.request_hash, k.arrival_hash, p_request_hash, p_arrival_hash)
              AND k.response_bytes IS NULL
              AND k.error_bytes IS NULL
              AND k.expires > clock_timestamp()
              AND coalesce(k.lease_expires, k.created + v_foreign_lease) <= clock_timestamp()
              AND CASE WHEN k.lease_expires IS NULL THEN p_on_foreign ELSE p_on_lease_ended END = v_policy
              AND (NOT k.outcome_unknown OR v_policy = 'reconcile')
              AND clock_timestamp() <= v_until;
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
    IF state = 'completed' AND resource IS NOT NULL AND p_resource_type IS NOT NULL THEN
        v_status := tenant.idempotency_soft_status(p_resource_type, resource);
        status := v_status.status;
        status_error := v_status.status_error;
    END IF;
END
$claim$;

-- extend: renews the lease of the reservation with this token. Returns whether there was one. An abandoned reservation
-- does not count, because its lease cannot be renewed.
CREATE OR REPLACE PROCEDURE tenant.idempotency_extend(
    p_user uuid, p_key uuid, p_token uuid, p_lease double precision, -- seconds
    OUT extended boolean
)
LANGUAGE plpgsql AS $extend$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_as(p_user, p_user);

    UPDATE tenant.idempotency_keys k
    SET lease_expires = clock_timestamp() + make_interval(secs => p_lease),
        expires       = greatest(k.expires, clock_timestamp() + make_interval(secs => p_lease))
    WHERE k.idempotency_key = p_key
      AND k.user_id = p_user
      AND k.token = p_token
      AND k.response_bytes IS NULL
      AND k.error_bytes IS NULL
      AND k.lease_expires > 'epoch';
    extended := FOUND;
END
$extend$;

-- release: reserved -> absent. Only for the reservation with this token; returns whether there was one. Never changes a
-- row with an outcome. A reservation that this token took over, or whose outcome is unknown, is not deleted: its lease
-- ends at once, and the policy of the next claim applies. (The holder may not know that it took the reservation over,
-- because the reply to its claim may have been lost.)
CREATE OR REPLACE PROCEDURE tenant.idempotency_release(
    p_user uuid, p_key uuid, p_token uuid, OUT released boolean
)
LANGUAGE plpgsql AS $release$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_as(p_user, p_user);

    DELETE FROM tenant.idempotency_keys k
    WHERE k.idempotency_key = p_key
      AND k.user_id = p_user
      AND k.token = p_token
      AND k.attempts = 1
      AND NOT k.outcome_unknown
      AND k.response_bytes IS NULL
      AND k.error_bytes IS NULL;
    IF FOUND THEN
        released := true;
        RETURN;
    END IF;

    UPDATE tenant.idempotency_keys k
    SET lease_expires = 'epoch'
    WHERE k.idempotency_key = p_key
      AND k.user_id = p_user
      AND k.token = p_token
      AND k.response_bytes IS NULL
      AND k.error_bytes IS NULL;
    released := FOUND;
END
$release$;

-- abandon: reserved -> unknown. Only for the reservation with this token; returns whether there was one. Ends the lease
-- for good; 'rerun' does not take the reservation over.
CREATE OR REPLACE PROCEDURE tenant.idempotency_abandon(
    p_user uuid, p_key uuid, p_token uuid, OUT abandoned boolean
)
LANGUAGE plpgsql AS $abandon$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_as(p_user, p_user);

    UPDATE tenant.idempotency_keys k
    SET lease_expires   = 'epoch',
        outcome_unknown = true
    WHERE k.idempotency_key = p_key
      AND k.user_id = p_user
      AND k.token = p_token
      AND k.response_bytes IS NULL
      AND k.error_bytes IS NULL;
    abandoned := FOUND;
END
$abandon$;

-- Deletes at most `p_batch` expired rows of all users, and returns their number: of the table, or of one partition after the other
-- (V10), the longest expired first. Several processes share the work: each takes the partitions in another order, and passes over rows
-- that another has locked. Runs as the owner, with the sight of the sweep. It is nobody's transaction: the nil owner. It sets the nil user only because
-- authn.current_user_id() of some applications raises an error if no user is set.
--
-- `reached` is where the batch has ended: a table or partition, and a time in `expires`, in microseconds since 1970. The next batch takes it
-- and begins there. Without it, it would pass over the index entries of all rows that are gone, because they stay until the next vacuum, and so each
-- batch would take longer than the one before. What this passes over, rows that were locked, is found before the sweep ends: a
-- batch that is not full has looked at everything from the beginning.
--
-- The planner cannot estimate how many rows the policies let through. It assumes fewer rows than a batch, and so
-- prefers to read and sort the whole table for each batch. With enable_sort off, it reads the index on `expires`, and
-- only as far as needed; with enable_seqscan off, a small partition is not read as a whole to delete rows whose places are known.
--
-- The sweep changes more pages than the cache holds, and has to write those that leave it. With backend_flush_after they go to the disk at
-- once. Otherwise the system keeps them for half a minute and then writes hundreds of megabytes in one go, which each COMMIT waits behind.
CREATE OR REPLACE FUNCTION tenant.idempotency_sweep_rows(p_batch integer, OUT deleted bigint, INOUT reached text DEFAULT NULL)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_sort = off
SET enable_seqscan = off
SET backend_flush_after = '512kB'
SET jit = off AS $sweep_rows$
DECLARE
    v_owner CONSTANT text := coalesce(current_setting('idempotency.owner', true), '');
    v_user CONSTANT text := coalesce(current_setting('app.current_user_id', true), '');
    v_reached CONSTANT bigint[] := string_to_array(reached, ' ');
    v_part regclass;
    v_from timestamptz;
    v_rows bigint;
    v_last timestamptz;
BEGIN
    PERFORM tenant.idempotency_needs_sight('idempotency_keys_sweep_delete_policy');
    PERFORM set_config('idempotency.owner', '00000000-0000-0000-0000-000000000000', true),
            set_config('app.current_user_id', '00000000-0000-0000-0000-000000000000', true),
            set_config('app.idempotency_sight', 'sweep', true);
    deleted := 0;
    reached := NULL;

    -- The rows are locked, so their ctid does not change.
    FOR v_part, v_from IN
        WITH parts AS MATERIALIZED (
            SELECT c.oid AS id FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass AND c.relkind = 'r'
            UNION ALL
            SELECT i.inhrelid FROM pg_inherits i
            JOIN pg_partitioned_table p ON p.partrelid = i.inhparent
            WHERE i.inhparent = 'tenant.idempotency_keys'::regclass
        )
        SELECT t.id, t.since
        FROM (
            SELECT 1 AS turn, p.id, to_timestamp(0) + v_reached[2] * interval '1 microsecond' AS since
            FROM parts p WHERE p.id = v_reached[1]
            UNION ALL
            SELECT 2, p.id, '-infinity' FROM parts p
        ) t
        ORDER BY t.turn, random()
    LOOP
        EXECUTE format(
            'WITH gone AS ('
            'DELETE FROM ONLY %1$s WHERE ctid = ANY (ARRAY('
            'SELECT k.ctid FROM ONLY %1$s k WHERE k.expires >= $1 AND k.expires <= now() ORDER BY k.expires LIMIT $2 FOR UPDATE SKIP LOCKED'
            ')) RETURNING expires) SELECT count(*), max(expires) FROM gone',
            v_part
        ) INTO v_rows, v_last USING v_from, p_batch - deleted;
        deleted := deleted + v_rows;
        IF deleted >= p_batch THEN
            reached := v_part::oid || ' ' || floor(1000000 * date_part('epoch', v_last))::bigint;
            EXIT;
        END IF;
    END LOOP;

    IF deleted < p_batch AND to_regclass('tenant.idempotency_allowances') IS NOT NULL THEN
        -- Of users who do not call any more (V11).
        DELETE FROM tenant.idempotency_allowances a WHERE a.until <= now() - interval '1 hour';
    END IF;

    PERFORM set_config('app.idempotency_sight', '', true),
            set_config('app.current_user_id', v_user, true),
            set_config('idempotency.owner', v_owner, true);
END
$sweep_rows$;

-- sweep: deletes at most `p_batch` expired rows of all users, and returns their number and where it has ended, for the next batch. Does not wait
-- for the disk: what a crash takes back is swept again.
CREATE OR REPLACE PROCEDURE tenant.idempotency_sweep(p_batch integer, OUT deleted bigint, INOUT reached text DEFAULT NULL)
LANGUAGE plpgsql AS $sweep$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    v_set := pg_catalog.set_config('synchronous_commit', 'off', true);
    SELECT s.deleted, s.reached INTO deleted, reached FROM tenant.idempotency_sweep_rows(p_batch, reached) s;
END
$sweep$;

-- status: returns the newest outbox status of a resource, read as the application's user p_app_user, with its settings.
CREATE OR REPLACE PROCEDURE tenant.idempotency_status(
    p_app_user uuid, p_resource_type text, p_resource text, p_settings text[], OUT status text
)
LANGUAGE plpgsql AS $status$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_as(NULL, p_app_user);
    v_set := set_config('plan_cache_mode', 'auto', true); -- the application's plans
    IF p_settings IS NOT NULL THEN
        v_set := tenant.idempotency_set(p_settings);
    END IF;
    status := tenant.idempotency_resource_status(p_resource_type, p_resource);
END
$status$;

SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('app.idempotency_search_path'), false);
