-- The pack for Citus: distributes tenant.idempotency_keys by user over the nodes of a cluster, and moves the protocol to the node that holds
-- the row. Needs Citus (it has run on 13.2, with PostgreSQL 15), and the migrations of migrations/core on the coordinator. Run it on
-- the coordinator, as the role that owns the table, after all resource types have been registered; and again after each further
-- registration and after each further migration, which put the functions of one server back. It may run any number of times.
--
-- The changes on the coordinator, for reasons that docs/citus.md gives:
--
--   the primary key is (user_id, id), and the table is distributed by user_id
--   each *_row function of the core runs where the row is: Citus sends the whole call there
--   settings are sent to all nodes that take part in a transaction
--   statements for several calls do nothing, so that each call goes alone: set the store's max_batch to 1
--
-- It repeats no statement of the core but the sweep's.

-- Names mean PostgreSQL's own, whatever the role's search_path is. The last statement restores it.
SELECT pg_catalog.set_config('app.idempotency_search_path', pg_catalog.current_setting('search_path'), false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);

DO $check$
DECLARE
    v_partitions CONSTANT bigint := (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = 'tenant.idempotency_keys'::regclass);
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

-- The statements for several calls, whose rows are on several nodes, find and do nothing, so that each call goes alone. Before the
-- distribution: Citus does not distribute a table that a function reads with others.
DO $alone$
DECLARE
    v_routine regprocedure;
BEGIN
    FOR v_routine IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass)
          AND p.proname IN ('idempotency_look', 'idempotency_reserve_many', 'idempotency_complete_many')
    LOOP
        EXECUTE format(
            'CREATE OR REPLACE FUNCTION %s(%s) RETURNS %s LANGUAGE plpgsql %s AS %L',
            (SELECT format('%s.%I', p.pronamespace::regnamespace, p.proname) FROM pg_proc p WHERE p.oid = v_routine),
            pg_get_function_arguments(v_routine), pg_get_function_result(v_routine),
            (SELECT CASE WHEN p.proretset THEN 'STABLE ROWS 1' ELSE 'VOLATILE' END FROM pg_proc p WHERE p.oid = v_routine),
            'BEGIN RETURN; END'
        );
    END LOOP;
END
$alone$;

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

-- No statistics of the columns of types that were registered since, as of all that belongs to a user. Citus refuses the statement for a
-- distributed table. So each part gets it by a connection of its own, and then the table on the coordinator, whose columns a part that is
-- moved has. Calls go on meanwhile.
DO $statistics$
DECLARE
    v_propagation text;
    v_alter text;
    v_failed text;
BEGIN
    FOR v_alter IN
        SELECT format('ALTER COLUMN %I SET STATISTICS 0', a.attname)
        FROM tenant.idempotency_resource_types t
        JOIN pg_attribute a ON a.attrelid = 'tenant.idempotency_keys'::regclass AND a.attname = t.resource_column
        WHERE coalesce(a.attstattarget, -1) <> 0
    LOOP
        SELECT r.result INTO v_failed
        FROM run_command_on_shards(
            'tenant.idempotency_keys',
            'DO $do$ BEGIN SET LOCAL lock_timeout = ''500ms''; ALTER TABLE %s ' || v_alter || '; END $do$'
        ) r
        WHERE NOT r.success
        LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'a part of tenant.idempotency_keys keeps statistics of a resource type: %', v_failed
                USING HINT = 'Commit the registration, and run this again when no transaction on the table has been open for long.';
        END IF;
        v_propagation := current_setting('citus.enable_ddl_propagation');
        PERFORM set_config('citus.enable_ddl_propagation', 'off', true);
        EXECUTE 'ALTER TABLE tenant.idempotency_keys ' || v_alter;
        PERFORM set_config('citus.enable_ddl_propagation', v_propagation, true);
    END LOOP;
END
$statistics$;

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

-- As in the core, on all nodes that take part.
CREATE OR REPLACE FUNCTION tenant.idempotency_act_for(p_owner uuid, p_app_user uuid) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $act_for$
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        RETURN tenant.idempotency_needs_primary();
    END IF;
    RETURN tenant.idempotency_set(ARRAY[
        'idempotency.owner', coalesce(p_owner::text, ''), 'app.current_user_id', coalesce(p_app_user::text, '')
    ]);
END
$act_for$;

CREATE OR REPLACE FUNCTION tenant.idempotency_act_as(p_owner uuid, p_app_user uuid) RETURNS text
LANGUAGE sql VOLATILE
RETURN set_config('search_path', 'pg_catalog, pg_temp', true) || tenant.idempotency_act_for(p_owner, p_app_user);

-- No key is free here for the client's plain statements: their lock would be the coordinator's, and not the one of the node that has the
-- record, and a node does not have the settings that they make. So the client asks tenant.idempotency_begin, and tenant.idempotency_commit.
CREATE OR REPLACE FUNCTION tenant.idempotency_is_free(p_user uuid, p_key uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $is_free$
BEGIN
    RETURN false;
END
$is_free$;

-- A holder is a connection of the node that has the key's row.
CREATE OR REPLACE FUNCTION tenant.idempotency_node(p_owner uuid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $node$
BEGIN
    RETURN (
        SELECT concat(d.nodename, ':', d.nodeport)
        FROM pg_dist_placement p
        JOIN pg_dist_node d ON d.groupid = p.groupid AND d.noderole = 'primary'
        WHERE p.shardid = get_shard_id_for_distribution_column('tenant.idempotency_keys', p_owner)
    );
END
$node$;

-- The sweep asks all nodes, as the table's owner.
--
-- A statement for all nodes does not pass over rows that another transaction has locked. So a sweep that meets a running sweep leaves the
-- work to it. Each batch begins with the rows that expired first: there is no `reached`.
--
-- Citus sends the settings with the transaction that it begins on the nodes. It begins none for a single query of a function, but does for one
-- whose results it keeps: so the core's recovery has a materialized query.
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
    PERFORM tenant.idempotency_see('sweep');

    SELECT array_agg(DISTINCT o.user_id), array_agg(o.id)
    INTO v_users, v_ids
    FROM (
        SELECT k.user_id, k.id FROM tenant.idempotency_keys k WHERE k.expires <= v_now ORDER BY k.expires LIMIT p_batch
    ) o;
    -- The ids select the rows; the users, the nodes that have them.
    IF v_ids IS NOT NULL THEN
        DELETE FROM tenant.idempotency_keys k
        WHERE k.user_id = ANY (v_users) AND k.id = ANY (v_ids) AND k.expires <= v_now;
        GET DIAGNOSTICS deleted = ROW_COUNT;
    END IF;
    IF deleted < p_batch THEN
        PERFORM tenant.idempotency_sweep_more();
    END IF;

    PERFORM tenant.idempotency_see('', v_owner, v_user);
END
$sweep_rows$;

-- Sends the calls to the nodes. PostgreSQL evaluates an assignment without its planner, and Citus sends only statements that are planned:
-- so each assignment of a *_row function becomes a query.
DO $nodes$
DECLARE
    v_schema CONSTANT oid := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass);
    v_call CONSTANT text := '([a-z_]+) := ([^ ;(]*idempotency_[a-z_]+_row[(][^;]*[)]);';
    v_routine regprocedure;
    v_definition text;
    v_part text[];
    v_role name;
BEGIN
    -- A plan that is made once does not know the owner, and so not the node.
    FOR v_routine IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = v_schema AND p.proconfig @> ARRAY['plan_cache_mode=force_generic_plan']
    LOOP
        EXECUTE format('ALTER FUNCTION %s RESET plan_cache_mode', v_routine);
    END LOOP;
    FOR v_routine IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = v_schema AND p.prosrc ~ v_call LOOP
        v_definition := pg_get_functiondef(v_routine);
        v_part := regexp_match(v_definition, v_call);
        EXECUTE replace(
            v_definition, format('%s := %s;', v_part[1], v_part[2]), format('SELECT * INTO %s FROM %s;', v_part[1], v_part[2])
        );
    END LOOP;

    -- The functions that the *_row functions call.
    FOR v_routine IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = v_schema
          AND p.proname IN (
              'idempotency_erase_content', 'idempotency_erased_error', 'idempotency_holder', 'idempotency_in_time',
              'idempotency_insert_record', 'idempotency_is_erased', 'idempotency_lock_id', 'idempotency_may_take_over',
              'idempotency_milliseconds_until', 'idempotency_needs_primary', 'idempotency_needs_type', 'idempotency_resource_id',
              'idempotency_resource_type', 'idempotency_same_request', 'idempotency_seed', 'idempotency_state'
          )
    LOOP
        PERFORM create_distributed_function(v_routine);
    END LOOP;

    -- The whole call goes to the node of its first argument, also in a transaction. A node has another search_path.
    FOR v_routine IN
        SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = v_schema AND p.proname LIKE 'idempotency!_%!_row' ESCAPE '!'
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', v_routine);
        PERFORM create_distributed_function(
            v_routine, 'p_user', colocate_with => 'tenant.idempotency_keys', force_delegation => true
        );
    END LOOP;

    -- The roles that had the rights of the API's own role have them still, on the nodes, too.
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
