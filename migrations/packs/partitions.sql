-- Partitions: the table of keys, hash-partitioned by user, for teams that one table and one vacuum no longer serve. Opt-in:
--
--   SELECT tenant.idempotency_partition(16);       -- an empty table, right after the migrations
--   CALL tenant.idempotency_move_to_partitions(16); -- a table in use: calls go on meanwhile
--
-- A partitioned table has the same name, columns, checks, foreign keys, policies and rights. Its unique constraints contain the user,
-- because those of a partitioned table have to: (user_id, idempotency_key) and (id, user_id). The first also finds all records of a
-- user. The second is led by the id, which is a time: the recovery reads the newest records by it.
--
-- The condition of the owner compares user_id with a setting, and a statement for several calls changes that setting from row to row.
-- PostgreSQL would choose the partitions by `user_id = ...` once, before the first row, and find nothing in the others. So the policy says
-- `user_id >= ... AND user_id <= ...`, which chooses no partition of a hash; the statement's own condition on user_id does, row by row. It is
-- a condition of the index, too, as in a table without partitions: what a reader adds, such as `user_id < ...`, reads no entries of the index
-- but the reader's own, so that neither EXPLAIN (ANALYZE) nor the time that it takes tells of other users. (The planner evaluates what it
-- compares with, but no sub-select: authn.current_user_id() of some applications raises an error if no user is set.)
--
-- The other policies say `CASE WHEN ... THEN true ELSE false END`, which PostgreSQL does not look into.
--
-- Row-level security is forced on each partition, with the policies of the sweep alone: no role gets at rows past the table's policies.

-- Returns the policies of the table, of one that it is being moved to, and of their partitions. Called by tenant.idempotency_repairs.
CREATE OR REPLACE FUNCTION tenant.idempotency_policies() RETURNS TABLE (
    of_table regclass, name name, command text, is_owners boolean, condition text, checked text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $policies$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
    v_next CONSTANT regclass := to_regclass('tenant.idempotency_keys_next'); -- NULL unless it is being moved
BEGIN
    RETURN QUERY
    SELECT t.id::regclass, p.name, p.command, p.is_owners,
           CASE
               WHEN NOT t.is_parent THEN p.condition
               WHEN p.name = 'idempotency_keys_owner_policy' THEN format(
                   'user_id >= %1$s AND user_id <= %1$s',
                   replace(tenant.idempotency_owner_set(), 'authn.current_user_id()', '(SELECT authn.current_user_id())')
               )
               ELSE format('CASE WHEN %s THEN true ELSE false END', p.condition)
           END,
           p.checked
    FROM (
        SELECT c.oid AS id, c.relkind = 'p' AS is_parent, false AS is_part
        FROM pg_class c WHERE c.oid IN (v_table, v_next)
        UNION ALL
        SELECT i.inhrelid, false, true
        FROM pg_inherits i JOIN pg_partitioned_table p ON p.partrelid = i.inhparent
        WHERE i.inhparent IN (v_table, v_next)
    ) t
    CROSS JOIN tenant.idempotency_policies_of_keys() p
    WHERE p.is_of_parts OR NOT t.is_part;
END
$policies$;

-- Raises an error unless the table of keys can become a table of this number of partitions.
CREATE OR REPLACE FUNCTION tenant.idempotency_check_partitioning(p_partitions integer) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $check$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
    v_distributed boolean := false;
    v_in_the_way text;
BEGIN
    IF p_partitions IS NULL OR p_partitions NOT BETWEEN 2 AND 256 THEN
        RAISE EXCEPTION 'a table cannot have % partitions', coalesce(p_partitions::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value', HINT = 'The number is from 2 to 256; 16 is right for nearly all.';
    END IF;
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = v_table AND NOT pg_has_role(c.relowner, 'USAGE')) THEN
        RAISE EXCEPTION 'only the owner of tenant.idempotency_keys can partition it' USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- By the pack for Citus. Most servers have no such table of Citus.
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = $1)' INTO v_distributed USING v_table;
    END IF;
    IF v_distributed THEN
        RAISE EXCEPTION 'tenant.idempotency_keys is distributed over several nodes, and cannot be partitioned'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Each node has parts of the table already.';
    END IF;

    -- The new table's foreign keys are valid.
    PERFORM tenant.idempotency_validate();
    SELECT string_agg(found.what, ', ' ORDER BY found.what) INTO v_in_the_way
    FROM (
        SELECT format('the view %s', r.ev_class::regclass) AS what
        FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = v_table
        UNION
        SELECT format('the foreign key %I of %s', c.conname, c.conrelid::regclass)
        FROM pg_constraint c WHERE c.contype = 'f' AND c.confrelid = v_table
        UNION
        SELECT format('records that do not fit the foreign key %I', c.conname)
        FROM pg_constraint c WHERE c.contype = 'f' AND c.conrelid = v_table AND NOT c.convalidated
        UNION
        SELECT format('the inheritance of %s', i.inhrelid::regclass)
        FROM pg_inherits i WHERE i.inhparent = v_table OR i.inhrelid = v_table
        UNION
        SELECT format('the unique index %s', i.indexrelid::regclass)
        FROM pg_index i
        WHERE i.indrelid = v_table AND i.indisunique AND NOT i.indisprimary
          AND NOT EXISTS (
              SELECT FROM pg_attribute a
              WHERE a.attrelid = v_table AND a.attname = 'user_id' AND a.attnum = ANY (i.indkey)
          )
    ) AS found;
    IF v_in_the_way IS NOT NULL THEN
        RAISE EXCEPTION 'tenant.idempotency_keys cannot be partitioned because of %', v_in_the_way
            USING ERRCODE = 'dependent_objects_still_exist', HINT = 'Drop it before, and make it again after.';
    END IF;
END
$check$;

-- Returns the number of partitions of the table of keys; 0 if it has none.
CREATE OR REPLACE FUNCTION tenant.idempotency_partitions() RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $partitions$
BEGIN
    RETURN (
        SELECT count(*) FROM pg_inherits i
        JOIN pg_partitioned_table p ON p.partrelid = i.inhparent
        WHERE i.inhparent = 'tenant.idempotency_keys'::regclass
    );
END
$partitions$;

-- Makes tenant.idempotency_keys_next: an empty table like the table of keys, with this number of partitions, indexes, policies and rights.
-- The foreign keys and the triggers follow later.
--
-- The settings of autovacuum are for partitions of millions of short-lived rows. With PostgreSQL's own, a fifth of a table has to be
-- dead before it is vacuumed. The inserts count, too, so that counts of a user's records need the index alone. A vacuum gives no space back to the
-- file system: new records need it at once, and calls would wait for the lock that it takes for that.
CREATE OR REPLACE FUNCTION tenant.idempotency_make_next(p_partitions integer) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET default_table_access_method = heap AS $make$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
    v_owner CONSTANT regrole := (SELECT c.relowner FROM pg_class c WHERE c.oid = v_table);
    -- As PostgreSQL prints it in the policy of the core.
    v_owner_set CONSTANT text := format('COALESCE(%s)', concat_ws(
        ', ', '(NULLIF(current_setting(''idempotency.owner''::text, true), ''''::text))::uuid', tenant.idempotency_user_function()
    ));
    v_next regclass;
    v_partition regclass;
    v_statement text;
BEGIN
    CREATE TABLE tenant.idempotency_keys_next (LIKE tenant.idempotency_keys INCLUDING ALL EXCLUDING INDEXES EXCLUDING STATISTICS)
        PARTITION BY HASH (user_id);
    v_next := 'tenant.idempotency_keys_next';
    ALTER TABLE tenant.idempotency_keys_next
        ADD CONSTRAINT idempotency_partitioned_pk PRIMARY KEY (id, user_id),
        ADD CONSTRAINT idempotency_partitioned_uq_user_key UNIQUE (user_id, idempotency_key);
    CREATE INDEX idempotency_partitioned_idx_expires ON tenant.idempotency_keys_next (expires);

    -- The other indexes: those of resource types, and the application's.
    FOR v_statement IN
        SELECT format('CREATE %sINDEX %I ON tenant.idempotency_keys_next ', CASE WHEN i.indisunique THEN 'UNIQUE ' ELSE '' END,
                      'idempotency_partitioned_' || regexp_replace(c.relname, '^idempotency_(keys|partitioned)_', ''))
               || substring(pg_get_indexdef(i.indexrelid) FROM position(' USING ' IN pg_get_indexdef(i.indexrelid)))
        FROM pg_index i
        JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid = v_table
          AND NOT i.indisprimary
          AND i.indisvalid
          AND NOT (i.indisunique AND i.indnkeyatts = 2 AND i.indpred IS NULL
                   AND (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute a
                        WHERE a.attrelid = v_table AND a.attnum = ANY (i.indkey)) = ARRAY['idempotency_key', 'user_id'])
          AND NOT (i.indpred IS NULL AND NOT i.indisunique
                   AND i.indkey[0] = (SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = v_table AND a.attname = 'expires'))
        ORDER BY c.relname
    LOOP
        EXECUTE v_statement;
    END LOOP;

    FOR v_statement IN
        SELECT format(
            'CREATE POLICY %I ON tenant.idempotency_keys_next AS %s FOR %s TO %s%s%s',
            p.polname,
            CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
            CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
            (SELECT string_agg(CASE r.id WHEN 0 THEN 'PUBLIC' ELSE r.id::regrole::text END, ', ') FROM unnest(p.polroles) AS r (id)),
            ' USING (' || e.visible || ')',
            ' WITH CHECK (CASE WHEN ' || pg_get_expr(p.polwithcheck, p.polrelid) || ' THEN true ELSE false END)'
        )
        FROM pg_policy p
        CROSS JOIN LATERAL (
            SELECT CASE q.condition
                WHEN '(user_id = ' || v_owner_set || ')' THEN format(
                    '(user_id >= %1$s) AND (user_id <= %1$s)',
                    replace(v_owner_set, 'authn.current_user_id()', '(SELECT authn.current_user_id())')
                )
                ELSE 'CASE WHEN ' || q.condition || ' THEN true ELSE false END'
            END AS visible
            FROM (SELECT pg_get_expr(p.polqual, p.polrelid) AS condition) q
        ) e
        WHERE p.polrelid = v_table
        ORDER BY p.polname
    LOOP
        EXECUTE v_statement;
    END LOOP;
    IF (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = v_table) THEN
        ALTER TABLE tenant.idempotency_keys_next ENABLE ROW LEVEL SECURITY;
    END IF;

    FOR v_number IN 0..p_partitions - 1 LOOP
        EXECUTE format(
            'CREATE TABLE tenant.idempotency_keys_p%s PARTITION OF tenant.idempotency_keys_next '
            'FOR VALUES WITH (MODULUS %s, REMAINDER %s) '
            'WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, '
            'autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05, '
            'autovacuum_vacuum_cost_limit = 2000, vacuum_truncate = false, toast.autovacuum_vacuum_scale_factor = 0.02, '
            'toast.autovacuum_vacuum_threshold = 1000, toast.autovacuum_vacuum_cost_limit = 2000, toast.vacuum_truncate = false)',
            v_number, p_partitions, v_number
        );
    END LOOP;

    -- With those of the partitions.
    FOR v_statement IN
        SELECT format('ALTER TABLE tenant.idempotency_keys_next ALTER COLUMN %I SET STATISTICS %s', a.attname, a.attstattarget)
        FROM pg_attribute a
        WHERE a.attrelid = v_table AND a.attnum > 0 AND NOT a.attisdropped AND a.attstattarget >= 0
    LOOP
        EXECUTE v_statement;
    END LOOP;

    FOR v_partition IN SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = v_next LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', v_partition);
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', v_partition);
        FOR v_statement IN
            SELECT format('CREATE POLICY %I ON %s FOR %s TO %s USING (%s)%s', p.name, v_partition, p.command, v_owner, p.condition, p.checked)
            FROM tenant.idempotency_policies_of_keys() p
            WHERE p.is_of_parts
        LOOP
            EXECUTE v_statement;
        END LOOP;
    END LOOP;

    -- The rights of the table. Only the owner has rights on a partition.
    PERFORM tenant.idempotency_revoke_all('pg_class', t.id)
    FROM (SELECT v_next::oid AS id UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = v_next) t;
    FOR v_statement IN
        SELECT format('GRANT %s%s ON TABLE tenant.idempotency_keys_next TO %s%s', a.privilege_type, r.columns,
                      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
                      CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
        FROM (
            SELECT c.oid, '', c.relacl, c.relowner FROM pg_class c
            UNION ALL
            SELECT c.oid, format(' (%I)', a.attname), a.attacl, c.relowner FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        ) AS r (id, columns, rights, owner)
        CROSS JOIN aclexplode(r.rights) a
        WHERE r.id = v_table AND a.grantee <> r.owner
    LOOP
        EXECUTE v_statement;
    END LOOP;

    IF v_owner <> (SELECT c.relowner FROM pg_class c WHERE c.oid = v_next) THEN
        FOR v_partition IN SELECT v_next::oid UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = v_next LOOP
            EXECUTE format('ALTER TABLE %s OWNER TO %s', v_partition, v_owner);
        END LOOP;
    END IF;
END
$make$;

-- Returns the statements that give tenant.idempotency_keys_next the foreign keys of the table of keys that it does not have.
CREATE OR REPLACE FUNCTION tenant.idempotency_missing_references() RETURNS SETOF text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $missing$
BEGIN
    RETURN QUERY
    SELECT format('ALTER TABLE tenant.idempotency_keys_next ADD CONSTRAINT %I %s', c.conname,
                  regexp_replace(pg_get_constraintdef(c.oid), ' NOT VALID$', ''))
    FROM pg_constraint c
    WHERE c.conrelid = 'tenant.idempotency_keys'::regclass AND c.contype = 'f'
      AND NOT EXISTS (
          SELECT FROM pg_constraint n
          WHERE n.conrelid = 'tenant.idempotency_keys_next'::regclass AND n.contype = 'f' AND n.conname = c.conname
      )
    ORDER BY c.conname;
END
$missing$;

-- Gives the name of the table of keys to tenant.idempotency_keys_next, and the table the name idempotency_keys_before. The functions that
-- take a row of the table, or were made with it, are made again. Holds a lock that excludes everything, for as long as that takes: some
-- milliseconds, and at most 25 more for the comparison of the records that have changed since they were compared.
CREATE OR REPLACE FUNCTION tenant.idempotency_switch_tables() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $switch$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
    v_next CONSTANT regclass := 'tenant.idempotency_keys_next';
    v_name CONSTANT name := (SELECT c.relname FROM pg_class c WHERE c.oid = v_table);
    v_statements text[];
    v_statement text;
BEGIN
    IF (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute a
        WHERE a.attrelid = v_table AND a.attnum > 0 AND NOT a.attisdropped)
       IS DISTINCT FROM
       (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute a
        WHERE a.attrelid = v_next AND a.attnum > 0 AND NOT a.attisdropped) THEN
        RAISE EXCEPTION 'tenant.idempotency_keys has other columns than when its partitions were made'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Call tenant.idempotency_stop_moving(), and begin again.';
    END IF;

    -- First those that take a row, which the others call.
    SELECT array_agg(s.statement ORDER BY s.place, s.id, s.part)
    INTO v_statements
    FROM (
        SELECT f.place, f.id, 1 AS part, pg_get_functiondef(f.id) AS statement
        FROM tenant.idempotency_functions_of(v_table) f
        UNION ALL
        SELECT f.place, f.id, 2, format('SELECT tenant.idempotency_revoke_all(''pg_proc'', %L::regprocedure)', f.id::regprocedure)
        FROM tenant.idempotency_functions_of(v_table) f
        WHERE f.place = 1
        UNION ALL
        SELECT f.place, f.id, 3,
               format('GRANT EXECUTE ON ROUTINE %s TO %s', f.id::regprocedure,
                      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
        FROM tenant.idempotency_functions_of(v_table) f JOIN pg_proc p ON p.oid = f.id
        CROSS JOIN aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        WHERE f.place = 1 AND a.grantee <> p.proowner
        UNION ALL
        SELECT f.place, f.id, 4, format('ALTER ROUTINE %s OWNER TO %s', f.id::regprocedure, p.proowner::regrole)
        FROM tenant.idempotency_functions_of(v_table) f JOIN pg_proc p ON p.oid = f.id
        WHERE f.place = 1 AND p.proowner::regrole::text <> current_user
        UNION ALL
        SELECT 3, t.oid, 1, pg_get_triggerdef(t.oid)
        FROM pg_trigger t
        WHERE t.tgrelid = v_table AND NOT t.tgisinternal AND NOT starts_with(t.tgname, 'idempotency_mirror')
    ) s;

    LOCK TABLE tenant.idempotency_keys, tenant.idempotency_keys_next IN ACCESS EXCLUSIVE MODE;
    -- An empty table (tenant.idempotency_partition) has nothing to compare.
    IF to_regclass('tenant.idempotency_move') IS NOT NULL THEN
        PERFORM tenant.idempotency_compare_changes();
    END IF;
    DROP TRIGGER IF EXISTS idempotency_mirror ON tenant.idempotency_keys;
    DROP TRIGGER IF EXISTS idempotency_mirror_changes ON tenant.idempotency_keys;
    DROP TRIGGER IF EXISTS idempotency_mirror_truncate ON tenant.idempotency_keys;
    IF (SELECT c.relforcerowsecurity FROM pg_class c WHERE c.oid = v_table) THEN
        ALTER TABLE tenant.idempotency_keys_next FORCE ROW LEVEL SECURITY;
    END IF;
    ALTER TABLE tenant.idempotency_keys RENAME TO idempotency_keys_before;
    EXECUTE format('ALTER TABLE tenant.idempotency_keys_next RENAME TO %I', v_name);
    FOREACH v_statement IN ARRAY coalesce(v_statements, '{}') LOOP
        EXECUTE v_statement;
    END LOOP;
END
$switch$;

-- Returns the functions that take a row of the table (1), and the others that were made with it (2).
CREATE OR REPLACE FUNCTION tenant.idempotency_functions_of(p_table regclass) RETURNS TABLE (place integer, id oid)
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE WHEN c.reltype = ANY (p.proargtypes::oid[]) THEN 1 ELSE 2 END, p.oid
    FROM pg_class c
    CROSS JOIN pg_proc p
    WHERE c.oid = p_table
      AND p.prokind IN ('f', 'p')
      AND (c.reltype = ANY (p.proargtypes::oid[])
           OR EXISTS (
               SELECT FROM pg_depend d
               WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                 AND (d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid
                      OR d.refclassid = 'pg_type'::regclass AND d.refobjid = c.reltype)
           ));
END;

-- Drops the table that tenant.idempotency_switch_tables has replaced, the functions of its rows, and everything that its move has left.
CREATE OR REPLACE FUNCTION tenant.idempotency_drop_before() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $drop$
DECLARE
    v_routine regprocedure;
BEGIN
    IF to_regclass('tenant.idempotency_keys_before') IS NULL THEN
        RETURN;
    END IF;
    FOR v_routine IN SELECT f.id FROM tenant.idempotency_functions_of('tenant.idempotency_keys_before') f WHERE f.place = 1 LOOP
        EXECUTE format('DROP ROUTINE %s', v_routine);
    END LOOP;
    DROP TABLE tenant.idempotency_keys_before;
    PERFORM tenant.idempotency_end_move();
END
$drop$;

-- Makes an empty table of keys one of p_partitions partitions. One that has as many already changes nothing. Excludes calls for as long
-- as it takes, about a second: it is for new databases.
CREATE OR REPLACE FUNCTION tenant.idempotency_partition(p_partitions integer DEFAULT 16) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s' AS $partition$
DECLARE
    v_partitions integer;
    v_statement text;
BEGIN
    -- One server at a time.
    LOCK TABLE tenant.idempotency_resource_types IN SHARE ROW EXCLUSIVE MODE;
    v_partitions := tenant.idempotency_partitions();
    IF v_partitions > 0 AND v_partitions = p_partitions THEN
        RETURN;
    ELSIF v_partitions > 0 THEN
        RAISE EXCEPTION 'tenant.idempotency_keys has % partitions, not %', v_partitions, p_partitions
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Their number does not change.';
    END IF;
    PERFORM tenant.idempotency_check_partitioning(p_partitions);
    IF to_regclass('tenant.idempotency_keys_next') IS NOT NULL THEN
        RAISE EXCEPTION 'tenant.idempotency_keys is being moved to partitions'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = format('Go on with CALL tenant.idempotency_move_to_partitions(%s).', p_partitions);
    END IF;
    LOCK TABLE tenant.idempotency_keys IN ACCESS EXCLUSIVE MODE;
    -- Row-level security would hide rows here; the size does not lie.
    IF pg_relation_size('tenant.idempotency_keys') > 0 THEN
        RAISE EXCEPTION 'tenant.idempotency_keys is not empty'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = format('Move it while calls go on: CALL tenant.idempotency_move_to_partitions(%s).', p_partitions);
    END IF;
    PERFORM tenant.idempotency_make_next(p_partitions);
    FOR v_statement IN SELECT m FROM tenant.idempotency_missing_references() m LOOP
        EXECUTE v_statement;
    END LOOP;
    PERFORM tenant.idempotency_switch_tables();
    PERFORM tenant.idempotency_drop_before();
END
$partition$;

-- The way for a table in use. A trigger mirrors each change of the table of keys in tenant.idempotency_keys_next, the rows that have not
-- changed since are copied in small batches, both tables are compared, and then the names are switched. Until then, every call sees the
-- table of keys and nothing else; from then on, the new one and nothing else. So servers of any version, the Go interceptor, and
-- statements by hand work on.
--
-- The mirror inserts or replaces, in one statement: in a transaction with one snapshot (REPEATABLE READ), a copy that was made meanwhile
-- cannot be seen, and the statement fails with serialization_failure. A DELETE would find nothing, and leave the copy: there, the row is
-- replaced first.
--
-- The comparison does not trust the mirror. A trigger of its own notes the keys of all records that change from its beginning on. Each
-- record is compared, in batches, and then again if it was noted. The last ones that were noted are compared under the lock of the switch.
-- A difference ends the move. All triggers fire in every session (ENABLE ALWAYS), also in one that applies logical replication.
--
-- Progress is in tenant.idempotency_move, a table of one row, which is written in the transaction of each step and names the new table by
-- its oid. (A comment on the new table would be lighter, but the ids that a copy has passed over are many in the worst case, and a
-- partitioned table has no storage parameters.) Each step of the move, and its reversal, holds the lock of the move.

-- Waits for the lock of the move, and has it until the end of the transaction.
CREATE OR REPLACE FUNCTION tenant.idempotency_lock_move() RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    SELECT pg_advisory_xact_lock(7594306392365691954);
END;

-- Makes the empty tables of the progress and of the changes for the new table.
CREATE OR REPLACE FUNCTION tenant.idempotency_begin_move() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $begin_move$
DECLARE
    v_owner CONSTANT regrole := (SELECT c.relowner FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass);
    v_table regclass;
BEGIN
    CREATE TABLE tenant.idempotency_move (
        next_table  oid    CONSTRAINT idempotency_move_pk PRIMARY KEY,
        -- The id from which on rows are to be copied; NULL if there are none left.
        copy_at     uuid            DEFAULT '00000000-0000-0000-0000-000000000000',
        -- The same for their comparison; NULL before it, too.
        compare_at  uuid,
        -- The rows that were locked when others were copied.
        passed_over uuid[] NOT NULL DEFAULT '{}',
        -- Which triggers there are (tenant.idempotency_mirrors) since the comparison has begun.
        triggers    text[]
    );
    INSERT INTO tenant.idempotency_move (next_table) VALUES ('tenant.idempotency_keys_next'::regclass);
    -- The keys of records that have changed since the comparison has begun, as often as they have. The id lets a publication of all tables
    -- have them, too.
    CREATE TABLE tenant.idempotency_move_changes (
        user_id         uuid NOT NULL,
        idempotency_key uuid NOT NULL,
        id              uuid DEFAULT gen_random_uuid() CONSTRAINT idempotency_move_changes_pk PRIMARY KEY
    );

    FOREACH v_table IN ARRAY ARRAY['tenant.idempotency_move', 'tenant.idempotency_move_changes']::regclass[] LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO %s', v_table, v_owner);
        PERFORM tenant.idempotency_revoke_all('pg_class', v_table);
    END LOOP;
END
$begin_move$;

-- Drops everything that a move needs besides the new table.
CREATE OR REPLACE FUNCTION tenant.idempotency_end_move() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $end_move$
BEGIN
    DROP FUNCTION IF EXISTS tenant.idempotency_mirror(), tenant.idempotency_note_change(),
        tenant.idempotency_copy_rows(uuid[], boolean), tenant.idempotency_compare_rows(uuid[], uuid[]);
    DROP TABLE IF EXISTS tenant.idempotency_move, tenant.idempotency_move_changes;
END
$end_move$;

CREATE OR REPLACE FUNCTION tenant.idempotency_write_mirror() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $write_mirror$
DECLARE
    v_names text; -- id, idempotency_key, ...
    v_upsert text; -- of OLD or NEW
BEGIN
    SELECT string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum),
           format('INSERT INTO tenant.idempotency_keys_next (%s) VALUES (%s) ON CONFLICT (user_id, idempotency_key) DO UPDATE SET %s',
                  string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum),
                  string_agg(format('{row}.%I', a.attname), ', ' ORDER BY a.attnum),
                  string_agg(format('%I = excluded.%I', a.attname, a.attname), ', ' ORDER BY a.attnum)
                      FILTER (WHERE a.attname NOT IN ('idempotency_key', 'user_id')))
    INTO v_names, v_upsert
    FROM pg_attribute a
    WHERE a.attrelid = 'tenant.idempotency_keys'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '';

    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION tenant.idempotency_mirror() RETURNS trigger
        LANGUAGE plpgsql SECURITY DEFINER
        SET search_path = pg_catalog, pg_temp AS $mirror$
        BEGIN
            IF TG_OP = 'TRUNCATE' THEN
                RAISE EXCEPTION 'the table of keys is being moved to partitions'
                    USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call tenant.idempotency_stop_moving() before.';
            END IF;
            IF TG_OP = 'DELETE'
               OR TG_OP = 'UPDATE' AND (OLD.user_id, OLD.idempotency_key) <> (NEW.user_id, NEW.idempotency_key) THEN
                IF current_setting('transaction_isolation') <> 'read committed' THEN
                    %1$s;
                END IF;
                DELETE FROM tenant.idempotency_keys_next n
                WHERE n.user_id = OLD.user_id AND n.idempotency_key = OLD.idempotency_key;
            END IF;
            IF TG_OP <> 'DELETE' THEN
                %2$s;
            END IF;
            RETURN NULL;
        END
        $mirror$
        $function$,
        replace(v_upsert, '{row}', 'OLD'), replace(v_upsert, '{row}', 'NEW')
    );

    CREATE OR REPLACE FUNCTION tenant.idempotency_note_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp AS $note$
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            INSERT INTO tenant.idempotency_move_changes VALUES (OLD.user_id, OLD.idempotency_key);
        END IF;
        IF TG_OP = 'INSERT'
           OR TG_OP = 'UPDATE' AND (OLD.user_id, OLD.idempotency_key) <> (NEW.user_id, NEW.idempotency_key) THEN
            INSERT INTO tenant.idempotency_move_changes VALUES (NEW.user_id, NEW.idempotency_key);
        END IF;
        RETURN NULL;
    END
    $note$;

    -- Copies the rows with these ids that have not expired, and returns the ids of those that it left out because they are locked. With
    -- p_wait it waits for them.
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION tenant.idempotency_copy_rows(p_ids uuid[], p_wait boolean) RETURNS uuid[]
        LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $copy$
        DECLARE
            v_copied uuid[];
        BEGIN
            IF p_wait THEN
                PERFORM FROM tenant.idempotency_keys k WHERE k.id = ANY (p_ids) FOR SHARE;
            END IF;
            WITH copied AS (
                INSERT INTO tenant.idempotency_keys_next (%1$s)
                SELECT %1$s
                FROM (
                    SELECT * FROM tenant.idempotency_keys k
                    WHERE k.id = ANY (p_ids) AND k.expires > clock_timestamp()
                    FOR SHARE SKIP LOCKED
                ) k
                ON CONFLICT DO NOTHING
                RETURNING id
            )
            SELECT array_agg(c.id) INTO v_copied FROM copied c;
            RETURN ARRAY(
                SELECT k.id FROM tenant.idempotency_keys k
                WHERE k.id = ANY (ARRAY(SELECT unnest(p_ids) EXCEPT SELECT unnest(v_copied)))
                  AND k.expires > clock_timestamp()
                  AND NOT EXISTS (
                      SELECT FROM tenant.idempotency_keys_next n
                      WHERE n.user_id = k.user_id AND n.idempotency_key = k.idempotency_key
                  )
            );
        END
        $copy$
        $function$,
        v_names
    );

    -- Compares the records of these users and keys in both tables, byte by byte. An expired one may be missing in the new table. Both are
    -- read by one statement, so that it sees each transaction with its mirror or not at all.
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION tenant.idempotency_compare_rows(p_users uuid[], p_keys uuid[]) RETURNS void
        LANGUAGE plpgsql
        SET search_path = pg_catalog, pg_temp AS $compare$
        DECLARE
            v_found record;
        BEGIN
            SELECT q.user_id, q.idempotency_key,
                   CASE WHEN k.id IS NULL THEN 'is gone, and not from its copy'
                        WHEN n.id IS NULL THEN 'has no copy' ELSE 'differs from its copy' END AS what
            INTO v_found
            FROM unnest(p_users, p_keys) AS q (user_id, idempotency_key)
            LEFT JOIN LATERAL (
                SELECT t.id, t.expires, ROW(%1$s) AS content FROM tenant.idempotency_keys t
                WHERE t.user_id = q.user_id AND t.idempotency_key = q.idempotency_key
            ) k ON true
            LEFT JOIN LATERAL (
                SELECT t.id, ROW(%1$s) AS content FROM tenant.idempotency_keys_next t
                WHERE t.user_id = q.user_id AND t.idempotency_key = q.idempotency_key
            ) n ON true
            WHERE CASE WHEN k.id IS NULL THEN n.id IS NOT NULL
                       WHEN n.id IS NULL THEN k.expires > clock_timestamp()
                       ELSE NOT (k.content OPERATOR(pg_catalog.*=) n.content) END
            LIMIT 1;
            IF FOUND THEN
                RAISE EXCEPTION 'the record of the key %% of the user %% %%', v_found.idempotency_key, v_found.user_id, v_found.what
                    USING ERRCODE = 'object_not_in_prerequisite_state',
                          HINT = 'Nothing is switched, and calls go on. '
                                 'Call tenant.idempotency_stop_moving(), and begin again. Write into the table of keys alone, with its triggers.';
            END IF;
        END
        $compare$
        $function$,
        v_names
    );
    PERFORM tenant.idempotency_revoke_all('pg_proc', f)
    FROM unnest(ARRAY[
        'tenant.idempotency_mirror()', 'tenant.idempotency_note_change()', 'tenant.idempotency_copy_rows(uuid[], boolean)',
        'tenant.idempotency_compare_rows(uuid[], uuid[])'
    ]::regprocedure[]) f;
END
$write_mirror$;

-- Lets each further change of the table of keys be mirrored, and the owner see all rows for the copies (`app.idempotency_sight`).
CREATE OR REPLACE FUNCTION tenant.idempotency_begin_mirroring() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $begin_mirroring$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
    v_owner CONSTANT regrole := (SELECT c.relowner FROM pg_class c WHERE c.oid = v_table);
BEGIN
    PERFORM tenant.idempotency_write_mirror();
    EXECUTE format('ALTER FUNCTION tenant.idempotency_mirror() OWNER TO %s', v_owner);
    EXECUTE format('ALTER FUNCTION tenant.idempotency_note_change() OWNER TO %s', v_owner);
    LOCK TABLE tenant.idempotency_keys IN ACCESS EXCLUSIVE MODE;
    EXECUTE format(
        'CREATE POLICY idempotency_keys_copy_policy ON tenant.idempotency_keys FOR SELECT TO %s '
        'USING (current_setting(''app.idempotency_sight'', true) = ''copy'')', v_owner
    );
    EXECUTE format(
        'CREATE POLICY idempotency_keys_copy_lock_policy ON tenant.idempotency_keys FOR UPDATE TO %s '
        'USING (current_setting(''app.idempotency_sight'', true) = ''copy'') WITH CHECK (false)', v_owner
    );
    CREATE TRIGGER idempotency_mirror AFTER INSERT OR UPDATE OR DELETE ON tenant.idempotency_keys
        FOR EACH ROW EXECUTE FUNCTION tenant.idempotency_mirror();
    CREATE TRIGGER idempotency_mirror_truncate BEFORE TRUNCATE ON tenant.idempotency_keys
        FOR EACH STATEMENT EXECUTE FUNCTION tenant.idempotency_mirror();
    ALTER TABLE tenant.idempotency_keys
        ENABLE ALWAYS TRIGGER idempotency_mirror, ENABLE ALWAYS TRIGGER idempotency_mirror_truncate;
END
$begin_mirroring$;

-- Copies at most p_batch rows: the next ones by their id, or, if there are none left, one of those that were passed over.
CREATE OR REPLACE FUNCTION tenant.idempotency_copy_batch(p_batch integer) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_sort = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off AS $copy_batch$
DECLARE
    v_move record;
    v_ids uuid[];
    v_left uuid[];
BEGIN
    PERFORM tenant.idempotency_see('copy'); -- until this function ends, which has settings of its own
    SELECT m.* INTO v_move FROM tenant.idempotency_move m;
    IF v_move.copy_at IS NULL THEN
        v_left := v_move.passed_over[2:] || tenant.idempotency_copy_rows(v_move.passed_over[1:1], true);
    ELSE
        -- One row beyond the batch: the next batch begins there.
        v_ids := ARRAY(SELECT k.id FROM tenant.idempotency_keys k WHERE k.id >= v_move.copy_at ORDER BY k.id LIMIT p_batch + 1);
        v_left := v_move.passed_over || tenant.idempotency_copy_rows(v_ids[:p_batch], false);
    END IF;
    UPDATE tenant.idempotency_move SET copy_at = v_ids[p_batch + 1], passed_over = v_left;
END
$copy_batch$;

-- Returns the triggers of the move, each with the transaction that last changed it: a trigger that was disabled meanwhile has changed.
CREATE OR REPLACE FUNCTION tenant.idempotency_mirrors() RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $mirrors$
BEGIN
    RETURN ARRAY(
        SELECT format('%s %s', t.oid, t.xmin) FROM pg_trigger t
        WHERE t.tgrelid = 'tenant.idempotency_keys'::regclass AND starts_with(t.tgname, 'idempotency_mirror')
        ORDER BY t.oid
    );
END
$mirrors$;

-- Lets each further change of the table of keys be noted.
CREATE OR REPLACE FUNCTION tenant.idempotency_begin_comparing() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $begin_comparing$
BEGIN
    -- Waits until no transaction is open that has changed the table without a note.
    CREATE TRIGGER idempotency_mirror_changes AFTER INSERT OR UPDATE OR DELETE ON tenant.idempotency_keys
        FOR EACH ROW EXECUTE FUNCTION tenant.idempotency_note_change();
    ALTER TABLE tenant.idempotency_keys ENABLE ALWAYS TRIGGER idempotency_mirror_changes;
    UPDATE tenant.idempotency_move SET triggers = tenant.idempotency_mirrors();
END
$begin_comparing$;

-- Compares the next p_batch rows by their id, and 500 of the records that have changed. Returns whether there are more of either.
CREATE OR REPLACE FUNCTION tenant.idempotency_compare_batch(p_batch integer) RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_sort = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off AS $compare_batch$
DECLARE
    v_at uuid;
    v_next uuid;
    v_users uuid[];
    v_keys uuid[];
BEGIN
    PERFORM tenant.idempotency_see('copy'); -- until this function ends, which has settings of its own
    SELECT m.compare_at INTO v_at FROM tenant.idempotency_move m;
    IF v_at IS NOT NULL THEN
        SELECT k.id INTO v_next FROM tenant.idempotency_keys k WHERE k.id >= v_at ORDER BY k.id OFFSET p_batch LIMIT 1;
        -- Those of both tables: one of the new table alone is as wrong.
        SELECT array_agg(r.user_id), array_agg(r.idempotency_key) INTO v_users, v_keys
        FROM (
            SELECT k.user_id, k.idempotency_key FROM tenant.idempotency_keys k
            WHERE k.id >= v_at AND k.id <= coalesce(v_next, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            UNION
            SELECT n.user_id, n.idempotency_key FROM tenant.idempotency_keys_next n
            WHERE n.id >= v_at AND n.id <= coalesce(v_next, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        ) r;
        PERFORM tenant.idempotency_compare_rows(v_users, v_keys);
        UPDATE tenant.idempotency_move SET compare_at = v_next;
    END IF;
    WITH noted AS (
        DELETE FROM tenant.idempotency_move_changes c
        WHERE c.ctid = ANY (ARRAY(SELECT l.ctid FROM tenant.idempotency_move_changes l LIMIT 500))
        RETURNING c.user_id, c.idempotency_key
    )
    SELECT array_agg(n.user_id), array_agg(n.idempotency_key) INTO v_users, v_keys FROM noted n;
    PERFORM tenant.idempotency_compare_rows(v_users, v_keys);
    RETURN v_next IS NOT NULL OR EXISTS (SELECT FROM tenant.idempotency_move_changes);
END
$compare_batch$;

-- Compares all records that have changed since they were compared, in at most 25 milliseconds: a lock is held meanwhile.
CREATE OR REPLACE FUNCTION tenant.idempotency_compare_changes() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_sort = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off AS $compare_changes$
DECLARE
    v_until CONSTANT timestamptz := clock_timestamp() + interval '25 milliseconds';
    v_users uuid[];
    v_keys uuid[];
BEGIN
    PERFORM tenant.idempotency_see('copy'); -- until this function ends, which has settings of its own
    IF tenant.idempotency_mirrors() IS DISTINCT FROM (SELECT m.triggers FROM tenant.idempotency_move m) THEN
        RAISE EXCEPTION 'the triggers of tenant.idempotency_keys were changed while it was moved to partitions'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Nothing is switched, and calls go on. Call tenant.idempotency_stop_moving(), and begin again.';
    END IF;
    FOR v_users, v_keys IN
        SELECT array_agg(c.user_id), array_agg(c.idempotency_key)
        FROM (SELECT l.*, row_number() OVER () AS number FROM tenant.idempotency_move_changes l) c
        GROUP BY c.number / 50
    LOOP
        PERFORM tenant.idempotency_compare_rows(v_users, v_keys);
        IF clock_timestamp() > v_until THEN
            RAISE EXCEPTION 'more records have changed than can be compared in 25 milliseconds' USING ERRCODE = 'lock_not_available';
        END IF;
    END LOOP;
END
$compare_changes$;

-- Compares what is left, and empties the files of the changes: they have to be read under the lock of the switch, and have grown with all
-- that were deleted from them.
CREATE OR REPLACE FUNCTION tenant.idempotency_empty_changes() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $empty$
BEGIN
    LOCK TABLE tenant.idempotency_move_changes IN ACCESS EXCLUSIVE MODE;
    PERFORM tenant.idempotency_compare_changes();
    TRUNCATE tenant.idempotency_move_changes;
END
$empty$;

-- Does the next step of the move to p_next, or of the move that there is if that is NULL. Returns the step, and the new table's oid.
CREATE OR REPLACE FUNCTION tenant.idempotency_move_step(
    p_partitions integer, p_batch integer, p_next oid, OUT step text, OUT next_table oid
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $step$
DECLARE
    v_partitions integer;
    v_move record;
    v_progress_of oid;
    v_constraint name;
    v_statement text;
BEGIN
    PERFORM tenant.idempotency_lock_move();
    v_partitions := tenant.idempotency_partitions();
    next_table := CASE WHEN v_partitions > 0 THEN 'tenant.idempotency_keys'::regclass
                       ELSE to_regclass('tenant.idempotency_keys_next') END;
    IF p_next IS NOT NULL AND p_next IS DISTINCT FROM next_table THEN
        RAISE EXCEPTION 'the move of tenant.idempotency_keys to partitions was taken back while it ran'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Nothing is lost: calls use the table of keys. To move it, call tenant.idempotency_move_to_partitions again.';
    END IF;
    IF v_partitions > 0 AND v_partitions = p_partitions THEN
        IF to_regclass('tenant.idempotency_keys_before') IS NULL THEN
            step := 'done';
            RETURN;
        END IF;
        -- Each locks another table, too.
        SELECT c.conname INTO v_constraint
        FROM pg_constraint c
        WHERE c.conrelid = to_regclass('tenant.idempotency_keys_before') AND c.contype = 'f'
        ORDER BY c.conname
        LIMIT 1;
        IF FOUND THEN
            EXECUTE format('ALTER TABLE tenant.idempotency_keys_before DROP CONSTRAINT %I', v_constraint);
            step := 'reference dropped';
            RETURN;
        END IF;
        PERFORM tenant.idempotency_drop_before();
        step := 'dropped';
        RETURN;
    ELSIF v_partitions > 0 THEN
        RAISE EXCEPTION 'tenant.idempotency_keys has % partitions, not %', v_partitions, p_partitions
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Their number does not change.';
    END IF;

    IF to_regclass('tenant.idempotency_move') IS NOT NULL THEN
        SELECT m.* INTO v_move FROM tenant.idempotency_move m;
        v_progress_of := v_move.next_table;
    END IF;
    IF next_table IS DISTINCT FROM v_progress_of THEN
        RAISE EXCEPTION 'the progress in tenant.idempotency_move is not that of tenant.idempotency_keys_next'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call tenant.idempotency_stop_moving(), and begin again.';
    ELSIF next_table IS NULL THEN
        PERFORM tenant.idempotency_check_partitioning(p_partitions);
        PERFORM tenant.idempotency_make_next(p_partitions);
        PERFORM tenant.idempotency_begin_move();
        next_table := 'tenant.idempotency_keys_next'::regclass;
        step := 'made';
        RETURN;
    ELSIF (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = next_table) <> p_partitions THEN
        RAISE EXCEPTION 'tenant.idempotency_keys is being moved to another number of partitions than %', p_partitions
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call tenant.idempotency_stop_moving(), and begin again.';
    END IF;
    SELECT m INTO v_statement FROM tenant.idempotency_missing_references() m LIMIT 1;
    IF FOUND THEN
        EXECUTE v_statement;
        step := 'referenced';
    ELSIF NOT EXISTS (
        SELECT FROM pg_trigger t WHERE t.tgrelid = 'tenant.idempotency_keys'::regclass AND t.tgname = 'idempotency_mirror'
    ) THEN
        PERFORM tenant.idempotency_begin_mirroring();
        step := 'mirrored';
    ELSIF v_move.copy_at IS NOT NULL OR v_move.passed_over <> '{}' THEN
        PERFORM tenant.idempotency_copy_batch(p_batch);
        step := 'copied';
    ELSIF v_move.triggers IS NULL AND v_move.compare_at IS NULL THEN
        ANALYZE tenant.idempotency_keys_next;
        UPDATE tenant.idempotency_move SET compare_at = '00000000-0000-0000-0000-000000000000';
        step := 'analyzed';
    ELSIF v_move.triggers IS NULL THEN
        PERFORM tenant.idempotency_begin_comparing();
        step := 'noted';
    ELSIF tenant.idempotency_compare_batch(p_batch) THEN
        step := 'compared';
    ELSIF pg_relation_size('tenant.idempotency_move_changes') > 1048576 THEN
        PERFORM tenant.idempotency_empty_changes();
        step := 'emptied';
    ELSE
        PERFORM tenant.idempotency_switch_tables();
        step := 'switched';
    END IF;
END
$step$;

-- Moves the table of keys to p_partitions partitions while calls go on. Run it as the owner of the table, outside of a transaction. It
-- takes one to two minutes for each million rows, and as much space as the rows that have not expired. If it is interrupted, call it
-- again, and it goes on; tenant.idempotency_stop_moving() takes everything back until the names are switched.
--
-- Waits at most p_lock_ms for each lock, because calls wait behind it; then tries again, up to p_attempts times, after a pause in which
-- they go on. Rests after each batch for p_rest times as long as it took.
CREATE OR REPLACE PROCEDURE tenant.idempotency_move_to_partitions(
    p_partitions integer DEFAULT 16,
    p_batch      integer DEFAULT 500,
    p_rest       double precision DEFAULT 0.5,
    p_lock_ms    integer DEFAULT 50,
    p_attempts   integer DEFAULT 1000
)
LANGUAGE plpgsql AS $move$
DECLARE
    v_set pg_catalog.text;
    v_begun pg_catalog.timestamptz;
    v_pause double precision;
    v_did record;
    v_next pg_catalog.oid;
    v_failed integer := 0;
BEGIN
    COMMIT;
    LOOP
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE;
        v_set := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        v_set := set_config('lock_timeout', p_lock_ms::text || 'ms', true);
        v_begun := clock_timestamp();
        v_pause := 0;
        BEGIN
            SELECT s.step, s.next_table INTO v_did FROM tenant.idempotency_move_step(p_partitions, greatest(p_batch, 1), v_next) s;
            v_next := v_did.next_table;
            EXIT WHEN v_did.step = 'done';
            IF v_did.step IN ('copied', 'compared') THEN
                v_pause := p_rest * date_part('epoch', clock_timestamp() - v_begun);
            END IF;
            -- Records that have changed meanwhile are compared between two attempts to switch.
            IF v_did.step NOT IN ('compared', 'emptied') THEN
                v_failed := 0;
            END IF;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            v_failed := v_failed + 1;
            IF v_failed >= p_attempts THEN
                RAISE;
            END IF;
            v_pause := 0.05 + random() * least(2, 0.1 * v_failed);
        END;
        COMMIT;
        PERFORM pg_catalog.pg_sleep(v_pause);
        COMMIT;
    END LOOP;
END
$move$;

-- Takes back what tenant.idempotency_move_to_partitions has done, unless the names are switched already. Calls go on with the table of
-- keys, and a mover that still runs ends with an error.
CREATE OR REPLACE FUNCTION tenant.idempotency_stop_moving() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = 0 AS $stop$
BEGIN
    -- No call waits behind this one.
    PERFORM tenant.idempotency_lock_move();
    PERFORM set_config('lock_timeout', '500ms', true);
    IF to_regclass('tenant.idempotency_keys_before') IS NOT NULL THEN
        RAISE EXCEPTION 'tenant.idempotency_keys is moved already: its partitions have all records'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'Call tenant.idempotency_move_to_partitions again: it drops what is left of the old table.';
    ELSIF coalesce(to_regclass('tenant.idempotency_keys_next'), to_regclass('tenant.idempotency_move')) IS NULL THEN
        RETURN;
    END IF;
    DROP TRIGGER IF EXISTS idempotency_mirror ON tenant.idempotency_keys;
    DROP TRIGGER IF EXISTS idempotency_mirror_changes ON tenant.idempotency_keys;
    DROP TRIGGER IF EXISTS idempotency_mirror_truncate ON tenant.idempotency_keys;
    DROP POLICY IF EXISTS idempotency_keys_copy_policy ON tenant.idempotency_keys;
    DROP POLICY IF EXISTS idempotency_keys_copy_lock_policy ON tenant.idempotency_keys;
    DROP TABLE IF EXISTS tenant.idempotency_keys_next;
    PERFORM tenant.idempotency_end_move();
END
$stop$;
