-- The store's further statements, beside its calls: the look-up of a call, the status of a resource, the sweep, and the search for
-- reservations whose calls have ended without an outcome.

-- Returns a time in microseconds since 1970, limited to the years that protobuf's timestamps have. Called by tenant.idempotency_look_up.
CREATE OR REPLACE FUNCTION tenant.idempotency_microseconds(p_time timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN CASE
    WHEN p_time IS NULL THEN NULL
    ELSE floor(1000000 * greatest(0, least(253402300799, date_part('epoch', p_time))))
END;

-- Returns the other transaction that holds this lock of a key: by the process id of its connection, or by its gid if it is prepared, and so has
-- no connection. All are NULL for none. Called by tenant.idempotency_look_up_row, tenant.idempotency_begin_row,
-- tenant.idempotency_operator_release_row and tenant.idempotency_evict_row.
CREATE OR REPLACE FUNCTION tenant.idempotency_holder(
    p_lock bigint,
    OUT pid integer, OUT gid text, OUT application text,
    OUT since timestamptz -- its beginning, or when it was prepared; NULL if this role may not see it
)
LANGUAGE plpgsql AS $holder$
DECLARE
    v_transaction text;
BEGIN
    SELECT l.pid, l.virtualtransaction INTO pid, v_transaction
    FROM pg_locks l
    WHERE l.locktype = 'advisory'
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND l.granted
      AND l.objsubid = 1
      AND l.mode = 'ExclusiveLock'
      AND l.classid = ((p_lock >> 32) & 4294967295)::oid
      AND l.objid = (p_lock & 4294967295)::oid
      AND l.pid IS DISTINCT FROM pg_backend_pid();
    IF pid IS NOT NULL THEN
        SELECT a.application_name, a.xact_start INTO application, since FROM pg_stat_get_activity(pid) a;
    ELSIF v_transaction IS NOT NULL THEN
        -- Each transaction that is prepared has the lock of its own number.
        SELECT x.gid, x.prepared INTO gid, since
        FROM pg_locks l
        JOIN pg_prepared_xacts x ON x.transaction = l.transactionid
        WHERE l.locktype = 'transactionid' AND l.pid IS NULL AND l.virtualtransaction = v_transaction;
    END IF;
END
$holder$;

-- Returns what is recorded of a key, and which transaction holds it: for tenant.idempotency_look_up and
-- tenant.idempotency_inspect, which call it.
--
-- The row is read again after the locks: a transaction that has committed in between is seen by its record. On a standby it
-- fails (tenant.idempotency_needs_primary).
CREATE OR REPLACE FUNCTION tenant.idempotency_look_up_row(
    p_user uuid, p_key uuid,
    OUT state              text, -- tenant.idempotency_state; NULL for no record
    OUT procedure text, OUT created timestamptz, OUT completed timestamptz, OUT expires timestamptz, OUT lease_left interval,
    OUT token uuid, OUT attempts integer, OUT resource_type text, OUT resource text,
    OUT holder_pid integer, OUT holder_gid text, OUT holder_application text, OUT holder_since timestamptz -- tenant.idempotency_holder
)
LANGUAGE plpgsql AS $look_up_row$
DECLARE
    v_set text; -- an assignment costs less than PERFORM
    v_holder record;
    k record;
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    FOR v_round IN 1..2 LOOP
        SELECT x.* INTO k FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user;
        state := CASE WHEN k.id IS NOT NULL THEN tenant.idempotency_state(k, NULL, NULL, clock_timestamp()) END;
        EXIT WHEN v_round = 2 OR state IN ('completed', 'not_stored', 'failed', 'reserved');
        v_holder := tenant.idempotency_holder(tenant.idempotency_lock_id(p_user, p_key));
    END LOOP;
    procedure := k.procedure;
    created := k.created;
    completed := k.completed;
    expires := k.expires;
    lease_left := k.lease_expires - clock_timestamp();
    token := k.token;
    attempts := k.attempts;
    resource_type := tenant.idempotency_resource_type(k);
    resource := tenant.idempotency_resource_id(k);
    IF state IS NULL OR state IN ('expired', 'unknown', 'abandoned') THEN
        -- Otherwise the lock's holder may be a replay that has not ended yet.
        holder_pid := v_holder.pid;
        holder_gid := v_holder.gid;
        holder_application := v_holder.application;
        holder_since := v_holder.since;
    END IF;
END
$look_up_row$;

-- look_up: returns the state of a key, and what is recorded of its call:
--
--   absent     there is no record
--   running    a call holds the key: with a lease that has not ended, or in an open transaction
--   completed  the call succeeded, also if its response was too large to store
--   failed     the call ended with an error that is recorded
--   unknown    the lease of the call ended without an outcome, or it is not known whether the call took effect
--   expired    there is a record, and its retention has passed
--
-- Changes nothing, and takes no lock of a key: a call that begins meanwhile does not notice it. A reservation of the Go interceptor, which
-- has no lease, is running until it expires. Of a call in a transaction that took no earlier call over, only the beginning of the
-- transaction is known: its procedure is recorded with its outcome. Not even that if the connections log in as another role than they use
-- (SET ROLE), which may not see it. Called by the store for the operations service, the recovery, and applications.
CREATE OR REPLACE PROCEDURE tenant.idempotency_look_up(
    p_user uuid, p_key uuid,
    p_status_of text[], -- the types of resources whose status to look up; NULL for none
    p_app_user  uuid, -- the application's user, for the look-up of the status; NULL for none
    p_settings  text[], -- the application's settings, for the same (tenant.idempotency_set); NULL for none
    OUT state text, OUT procedure text,
    OUT created       bigint, -- all times in microseconds (tenant.idempotency_microseconds)
    OUT completed bigint, OUT expires bigint,
    OUT resource_type text, -- that and the next only of a completed call
    OUT resource text, OUT status text, OUT status_error text
)
LANGUAGE plpgsql AS $look_up$
DECLARE
    v_set pg_catalog.text;
    v_found pg_catalog.record;
    v_status pg_catalog.record;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_as(p_user, p_app_user);
    IF p_settings IS NOT NULL THEN
        v_set := tenant.idempotency_set(p_settings);
    END IF;
    v_found := tenant.idempotency_look_up_row(p_user, p_key);
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
            v_status := tenant.idempotency_soft_status(resource_type, resource);
            status := v_status.status;
            status_error := v_status.status_error;
        END IF;
        RETURN;
    END IF;
    IF num_nonnulls(v_found.holder_pid, v_found.holder_gid) > 0 THEN
        IF state IS NULL OR state = 'expired' THEN
            procedure := NULL;
            expires := NULL;
            completed := NULL;
            created := tenant.idempotency_microseconds(v_found.holder_since);
        END IF;
        state := 'running';
    ELSIF state = 'reserved' THEN
        state := 'running';
    ELSIF state = 'abandoned' THEN
        state := 'unknown';
    END IF;
    state := coalesce(state, 'absent');
END
$look_up$;

-- status: returns the newest outbox status of a resource, read as the application's user p_app_user, with its settings. Called by the
-- store for a replay whose record is in memory.
CREATE OR REPLACE PROCEDURE tenant.idempotency_status(
    p_app_user uuid, p_resource_type text, p_resource text, p_settings text[], OUT status text
)
LANGUAGE plpgsql AS $status$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_as(NULL, p_app_user);
    v_set := set_config('plan_cache_mode', 'auto', true);
    IF p_settings IS NOT NULL THEN
        v_set := tenant.idempotency_set(p_settings);
    END IF;
    status := tenant.idempotency_resource_status(p_resource_type, p_resource);
END
$status$;

-- Deletes further rows that are of no use any more. A pack may replace it, so it is made only once. Called by
-- tenant.idempotency_sweep_rows.
DO $hook$
BEGIN
    IF to_regprocedure('tenant.idempotency_sweep_more()') IS NULL THEN
        CREATE FUNCTION tenant.idempotency_sweep_more() RETURNS void LANGUAGE plpgsql AS $more$ BEGIN END $more$;
    END IF;
END
$hook$;

-- Deletes at most `p_batch` expired rows of all users, and returns their number: of the table, or of one partition after the other,
-- the longest expired first. Several processes share the work: each takes the partitions in another order, and passes over rows
-- that another has locked. Runs as the table's owner, and sees the rows that the policy for the sweep shows. Called by tenant.idempotency_sweep.
--
-- `reached` is the position at which the batch has ended: a table or partition, and a time in `expires`, in microseconds since 1970. The
-- next batch takes it and begins there. Without it, each batch would scan the index entries of all rows that are gone, because they stay
-- until the next vacuum, and so take longer than the one before. Rows that this passes over because they were locked are found before the
-- sweep ends: a batch that is not full has looked at everything from the beginning.
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
    PERFORM tenant.idempotency_see('sweep');
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

    IF deleted < p_batch THEN
        PERFORM tenant.idempotency_sweep_more();
    END IF;

    PERFORM tenant.idempotency_see('', v_owner, v_user);
END
$sweep_rows$;

-- sweep: deletes at most `p_batch` expired rows of all users, and returns their number and where it has ended, for the next batch. Does not wait
-- for the disk: rows that a crash brings back are swept again. Called by the store's sweeper.
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

-- Returns at most `p_batch` reservations of these procedures, of all users, whose lease ended without an outcome. The oldest come first. They
-- were created within `p_lookback` seconds (NULL for no limit), and fewer than `p_attempts` calls have held them. The primary key is a
-- UUIDv7, so only rows within `p_lookback` are read. Runs as the table's owner, and sees the rows that the policy for the recovery shows. Called by the store's
-- recovery, which then determines the outcome of each as the owner of the reservation.
--
-- Reads for `p_seconds` at most. If there is more to read, the last row has nothing but `reached`: where the next page begins, `p_after`. A
-- page is of rows of the index, not of reservations, which may be a few among millions of outcomes. (As in the sweep, the planner would
-- rather read and sort the whole table.)
CREATE OR REPLACE FUNCTION tenant.idempotency_abandoned(
    p_procedures text[], p_lookback double precision, p_attempts integer, p_batch integer,
    p_after      uuid, -- NULL for the first page
    p_seconds double precision
) RETURNS TABLE (
    user_id uuid, idempotency_key uuid, procedure text, request_hash bytea, arrival_hash bytea, reached uuid
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
    PERFORM tenant.idempotency_see('recovery');

    WHILE v_left > 0 LOOP
        v_last := (
            SELECT p.id FROM (
                SELECT k.id FROM tenant.idempotency_keys k WHERE k.id > v_after ORDER BY k.id LIMIT 5000
            ) p
            ORDER BY p.id DESC LIMIT 1
        );
        EXIT WHEN v_last IS NULL;

        -- Materialized: otherwise Citus would not send the nodes the setting that shows these rows.
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

    PERFORM tenant.idempotency_see('', v_owner, v_user);
END
$abandoned$;
