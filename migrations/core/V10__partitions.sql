-- Partitions: the table of keys, hash-partitioned by user, for teams that one table and one vacuum no longer serve. Nobody gets them who
-- does not ask:
--
--   SELECT tenant.idempotency_partition(16);       -- an empty table, right after the migrations
--   CALL tenant.idempotency_move_to_partitions(16); -- a table in use: calls go on meanwhile
--
-- A partitioned table has the same name, columns, checks, foreign keys, policies and rights. Its unique constraints contain the user,
-- because those of a partitioned table have to: (user_id, idempotency_key) and (id, user_id). The first also finds all records of a
-- user. The second is led by the id, which is a time: the recovery reads the newest records by it.
--
-- The policies of a partitioned table say `CASE WHEN … THEN true ELSE false END`. The condition of the owner compares user_id with a
-- setting, and a statement for several calls (V9) changes that setting from row to row. PostgreSQL would choose the partitions by it
-- once, before the first row, and find nothing in the others. It does not look into a CASE; the statement's own condition on user_id
-- chooses the partitions, row by row. (Nor does it look into IS TRUE for that, but it evaluates what is there to plan the statement, and
-- authn.current_user_id() of some applications raises an error if no user is set.)
--
-- Row-level security is forced on each partition, with the policies of the sweep alone: no role gets at rows past the table's policies.

-- Names mean PostgreSQL's own, whatever the role's search_path is. The last statement restores it.
SELECT pg_catalog.set_config('app.idempotency_search_path', pg_catalog.current_setting('search_path'), false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);

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
    -- By migrations/citus. Most servers have no such table of Citus.
    IF to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL THEN
        EXECUTE 'SELECT EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = $1)' INTO v_distributed USING v_table;
    END IF;
    IF v_distributed THEN
        RAISE EXCEPTION 'tenant.idempotency_keys is distributed over several nodes, and cannot be partitioned'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Each node has parts of the table already.';
    END IF;

    SELECT string_agg(found.what, ', ' ORDER BY found.what) INTO v_in_the_way
    FROM (
        SELECT format('the view %s', r.ev_class::regclass) AS what
        FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
        WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = v_table
        UNION
        SELECT format('the foreign key %I of %s', c.conname, c.conrelid::regclass)
        FROM pg_constraint c WHERE c.contype = 'f' AND c.confrelid = v_table
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
SET search_path = pg_catalog, pg_temp AS $make$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
    v_owner CONSTANT regrole := (SELECT c.relowner FROM pg_class c WHERE c.oid = v_table);
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
            ' USING (CASE WHEN ' || pg_get_expr(p.polqual, p.polrelid) || ' THEN true ELSE false END)',
            ' WITH CHECK (CASE WHEN ' || pg_get_expr(p.polwithcheck, p.polrelid) || ' THEN true ELSE false END)'
        )
        FROM pg_policy p
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

    FOR v_partition IN SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = v_next LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', v_partition);
        EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', v_partition);
        FOR v_statement IN
            SELECT format('CREATE POLICY %I ON %s FOR %s TO %s USING (expires <= now() AND %s = ''sweep'')%s', p.name, v_partition,
                          p.command, v_owner, 'current_setting(''app.idempotency_sight'', true)', p.checked)
            FROM (VALUES
                ('idempotency_keys_sweep_policy', 'SELECT', ''),
                ('idempotency_keys_sweep_lock_policy', 'UPDATE', ' WITH CHECK (false)'),
                ('idempotency_keys_sweep_delete_policy', 'DELETE', '')
            ) AS p (name, command, checked)
        LOOP
            EXECUTE v_statement;
        END LOOP;
    END LOOP;

    -- The rights of the table, and none that default privileges have added. Nobody but the owner has any on a partition.
    FOR v_statement IN
        SELECT format('REVOKE ALL ON TABLE %s FROM %s', t.id::regclass, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
        FROM (SELECT v_next::oid AS id UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = v_next) t
        JOIN pg_class c ON c.oid = t.id
        CROSS JOIN LATERAL (SELECT DISTINCT e.grantee FROM aclexplode(c.relacl) e WHERE e.grantee <> c.relowner) a
    LOOP
        EXECUTE v_statement;
    END LOOP;
    FOR v_statement IN
        SELECT format('GRANT %s ON TABLE tenant.idempotency_keys_next TO %s%s', a.privilege_type,
                      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
                      CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
        FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
        WHERE c.oid = v_table AND a.grantee <> c.relowner
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
-- milliseconds.
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
        SELECT f.place, f.id, 2, format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', f.id::regprocedure)
        FROM tenant.idempotency_functions_of(v_table) f JOIN pg_proc p ON p.oid = f.id
        WHERE f.place = 1
          AND NOT EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0)
        UNION ALL
        SELECT f.place, f.id, 3,
               format('GRANT EXECUTE ON ROUTINE %s TO %s', f.id::regprocedure,
                      CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
        FROM tenant.idempotency_functions_of(v_table) f JOIN pg_proc p ON p.oid = f.id
        CROSS JOIN aclexplode(p.proacl) a
        WHERE f.place = 1 AND a.grantee <> p.proowner
        UNION ALL
        SELECT f.place, f.id, 4, format('ALTER ROUTINE %s OWNER TO %s', f.id::regprocedure, p.proowner::regrole)
        FROM tenant.idempotency_functions_of(v_table) f JOIN pg_proc p ON p.oid = f.id
        WHERE f.place = 1 AND p.proowner::regrole::text <> current_user
        UNION ALL
        SELECT 3, t.oid, 1, pg_get_triggerdef(t.oid)
        FROM pg_trigger t
        WHERE t.tgrelid = v_table AND NOT t.tgisinternal AND t.tgname NOT LIKE 'idempotency\_mirror%'
    ) s;

    LOCK TABLE tenant.idempotency_keys, tenant.idempotency_keys_next IN ACCESS EXCLUSIVE MODE;
    DROP TRIGGER IF EXISTS idempotency_mirror ON tenant.idempotency_keys;
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

-- Drops the table that tenant.idempotency_switch_tables has replaced, and the functions of its rows.
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
-- changed since are copied in small batches, and then the names are switched. Until then, every call sees the table of keys and nothing
-- else; from then on, the new one and nothing else. So servers of any version, the Go interceptor, and statements by hand work on.
--
-- The mirror inserts or replaces, in one statement: in a transaction with one snapshot (REPEATABLE READ), a copy that was made meanwhile
-- cannot be seen, and the statement fails with serialization_failure. A DELETE would find nothing, and leave the copy: there, the row is
-- replaced first.
CREATE OR REPLACE FUNCTION tenant.idempotency_write_mirror() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $write_mirror$
DECLARE
    v_names text; -- id, idempotency_key, …
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
    REVOKE EXECUTE ON FUNCTION tenant.idempotency_mirror(), tenant.idempotency_copy_rows(uuid[], boolean) FROM PUBLIC;
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
END
$begin_mirroring$;

-- Copies at most p_batch rows: the next ones after p_after by their id, or, if there are none left, one of p_left. `after` is NULL when
-- all of them were seen.
CREATE OR REPLACE FUNCTION tenant.idempotency_copy_batch(
    p_after uuid, p_left uuid[], p_batch integer, OUT after uuid, OUT remaining uuid[]
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_sort = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off AS $copy_batch$
DECLARE
    v_ids uuid[];
BEGIN
    -- Nobody's rows are copied by their policy; the nil user, because authn.current_user_id() of some applications needs one.
    PERFORM set_config('idempotency.owner', '00000000-0000-0000-0000-000000000000', true),
            set_config('app.current_user_id', '00000000-0000-0000-0000-000000000000', true),
            set_config('app.idempotency_sight', 'copy', true);
    IF p_after IS NULL THEN
        remaining := p_left[2:] || tenant.idempotency_copy_rows(p_left[1:1], true);
    ELSE
        v_ids := ARRAY(SELECT k.id FROM tenant.idempotency_keys k WHERE k.id > p_after ORDER BY k.id LIMIT p_batch);
        after := v_ids[cardinality(v_ids)];
        remaining := p_left || tenant.idempotency_copy_rows(v_ids, false);
    END IF;
    PERFORM set_config('app.idempotency_sight', '', true);
END
$copy_batch$;

-- Does the next step of the way, except for copies: 'copy' if rows are to be copied now, 'done' if there is nothing to do.
CREATE OR REPLACE FUNCTION tenant.idempotency_move_step(p_partitions integer, p_copied boolean) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $step$
DECLARE
    v_partitions integer;
    v_next regclass;
    v_constraint name;
    v_statement text;
BEGIN
    -- One connection at a time, until the end of the transaction.
    PERFORM pg_advisory_xact_lock(7594306392365691954);
    v_partitions := tenant.idempotency_partitions();
    v_next := to_regclass('tenant.idempotency_keys_next');
    IF v_partitions > 0 AND v_partitions = p_partitions THEN
        IF to_regclass('tenant.idempotency_keys_before') IS NULL THEN
            RETURN 'done';
        END IF;
        -- Each locks another table, too.
        SELECT c.conname INTO v_constraint
        FROM pg_constraint c
        WHERE c.conrelid = to_regclass('tenant.idempotency_keys_before') AND c.contype = 'f'
        ORDER BY c.conname
        LIMIT 1;
        IF FOUND THEN
            EXECUTE format('ALTER TABLE tenant.idempotency_keys_before DROP CONSTRAINT %I', v_constraint);
            RETURN 'reference dropped';
        END IF;
        PERFORM tenant.idempotency_drop_before();
        RETURN 'dropped';
    ELSIF v_partitions > 0 THEN
        RAISE EXCEPTION 'tenant.idempotency_keys has % partitions, not %', v_partitions, p_partitions
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Their number does not change.';
    END IF;

    IF v_next IS NULL THEN
        PERFORM tenant.idempotency_check_partitioning(p_partitions);
        PERFORM tenant.idempotency_make_next(p_partitions);
        RETURN 'made';
    ELSIF (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = v_next) <> p_partitions THEN
        RAISE EXCEPTION 'tenant.idempotency_keys is being moved to another number of partitions than %', p_partitions
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Call tenant.idempotency_stop_moving(), and begin again.';
    END IF;
    SELECT m INTO v_statement FROM tenant.idempotency_missing_references() m LIMIT 1;
    IF FOUND THEN
        EXECUTE v_statement;
        RETURN 'referenced';
    END IF;
    IF NOT EXISTS (
        SELECT FROM pg_trigger t WHERE t.tgrelid = 'tenant.idempotency_keys'::regclass AND t.tgname = 'idempotency_mirror'
    ) THEN
        PERFORM tenant.idempotency_begin_mirroring();
        RETURN 'mirrored';
    ELSIF NOT p_copied THEN
        RETURN 'copy';
    END IF;
    PERFORM tenant.idempotency_switch_tables();
    DROP FUNCTION tenant.idempotency_mirror(), tenant.idempotency_copy_rows(uuid[], boolean);
    RETURN 'switched';
END
$step$;

-- Moves the table of keys to p_partitions partitions while calls go on. Run it as the owner of the table, outside of a transaction. It
-- takes about a minute for each two million rows, and as much space as the rows that have not expired. If it is interrupted, call it
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
    v_step pg_catalog.text;
    v_failed integer := 0;
    v_copied boolean := false;
    v_after pg_catalog.uuid := '00000000-0000-0000-0000-000000000000';
    v_left pg_catalog.uuid[] := '{}';
    v_batch record;
BEGIN
    COMMIT;
    LOOP
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        v_set := pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        v_set := set_config('lock_timeout', p_lock_ms::text || 'ms', true);
        v_begun := clock_timestamp();
        v_pause := 0;
        BEGIN
            v_step := tenant.idempotency_move_step(p_partitions, v_copied);
            IF v_step = 'copy' THEN
                v_batch := tenant.idempotency_copy_batch(v_after, v_left, greatest(p_batch, 1));
                v_after := v_batch.after;
                v_left := v_batch.remaining;
                IF v_after IS NULL AND cardinality(v_left) = 0 THEN
                    ANALYZE tenant.idempotency_keys_next;
                    v_copied := true;
                END IF;
                v_pause := p_rest * date_part('epoch', clock_timestamp() - v_begun);
            END IF;
            v_failed := 0;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            v_failed := v_failed + 1;
            IF v_failed >= p_attempts THEN
                RAISE;
            END IF;
            v_step := 'locked';
            v_pause := 0.05 + random() * least(2, 0.1 * v_failed);
        END;
        EXIT WHEN v_step = 'done';
        COMMIT;
        PERFORM pg_catalog.pg_sleep(v_pause);
        COMMIT;
    END LOOP;
END
$move$;

-- Takes back what tenant.idempotency_move_to_partitions has done, unless the names are switched already. Calls go on with the table of keys.
CREATE OR REPLACE FUNCTION tenant.idempotency_stop_moving() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms' AS $stop$
BEGIN
    IF to_regclass('tenant.idempotency_keys_next') IS NULL THEN
        RETURN;
    END IF;
    DROP TRIGGER IF EXISTS idempotency_mirror ON tenant.idempotency_keys;
    DROP TRIGGER IF EXISTS idempotency_mirror_truncate ON tenant.idempotency_keys;
    DROP POLICY IF EXISTS idempotency_keys_copy_policy ON tenant.idempotency_keys;
    DROP POLICY IF EXISTS idempotency_keys_copy_lock_policy ON tenant.idempotency_keys;
    DROP FUNCTION IF EXISTS tenant.idempotency_mirror(), tenant.idempotency_copy_rows(uuid[], boolean);
    DROP TABLE tenant.idempotency_keys_next;
END
$stop$;

REVOKE EXECUTE ON ROUTINE
    tenant.idempotency_begin_mirroring(),
    tenant.idempotency_check_partitioning(integer),
    tenant.idempotency_copy_batch(uuid, uuid[], integer),
    tenant.idempotency_drop_before(),
    tenant.idempotency_functions_of(regclass),
    tenant.idempotency_make_next(integer),
    tenant.idempotency_missing_references(),
    tenant.idempotency_move_step(integer, boolean),
    tenant.idempotency_move_to_partitions(integer, integer, double precision, integer, integer),
    tenant.idempotency_partition(integer),
    tenant.idempotency_partitions(),
    tenant.idempotency_stop_moving(),
    tenant.idempotency_switch_tables(),
    tenant.idempotency_write_mirror()
FROM PUBLIC;

SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('app.idempotency_search_path'), false);
