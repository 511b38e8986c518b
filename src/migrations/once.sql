-- Migration {version} of tonic-idempotency: {name}. Changes nothing if the database has it.

-- No limit of the role ends it in the middle. One of a statement counts from its beginning, so that these are set before it, and restored
-- after it. They are for the transaction; without one (psql without -1) each statement keeps its own.
DO $limits$
BEGIN
    PERFORM pg_catalog.set_config('app.idempotency_' OPERATOR(pg_catalog.||) s.name, s.setting, true), pg_catalog.set_config(s.name, '0', true)
    FROM pg_catalog.pg_settings s
    WHERE s.name OPERATOR(pg_catalog.=) ANY (ARRAY['statement_timeout', 'transaction_timeout']);
END
$limits$;

DO $once$
DECLARE
    -- Settings of the role that change what the migration means, and what it needs. Names mean PostgreSQL's own.
    v_names  CONSTANT pg_catalog.text[] := ARRAY['standard_conforming_strings', 'default_table_access_method', 'search_path'];
    v_values CONSTANT pg_catalog.text[] := ARRAY['on', 'heap', 'pg_catalog, pg_temp'];
    v_role   pg_catalog.text[];
    v_limit  CONSTANT pg_catalog.text := pg_catalog.current_setting('lock_timeout');
    v_set    pg_catalog.text;
    v_ran    pg_catalog.text;
    v_locked pg_catalog.bool := false;
    v_there  pg_catalog.text[];
BEGIN
    IF pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.<) {oldest_server}0000 THEN
        RAISE EXCEPTION 'tonic-idempotency needs PostgreSQL {oldest_server} or later, and this server is PostgreSQL %',
            pg_catalog.current_setting('server_version')
            USING ERRCODE = 'feature_not_supported',
                  HINT = 'Upgrade the server, or use another.';
    END IF;
    LOOP
        -- Not to_regclass: after the lock, it would still remember that there was no such schema.
        IF EXISTS (
            SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
            WHERE n.nspname OPERATOR(pg_catalog.=) '{schema}'
              AND c.relname OPERATOR(pg_catalog.=) 'idempotency_migrations'
        ) THEN
            SELECT m.checksum INTO v_ran FROM tenant.idempotency_migrations m WHERE m.version OPERATOR(pg_catalog.=) {version};
            IF v_ran OPERATOR(pg_catalog.=) '{checksum}' THEN
                RETURN;
            ELSIF v_ran IS NOT NULL THEN
                RAISE EXCEPTION 'migration {version} of tonic-idempotency, {name}, was run with other SQL'
                    USING ERRCODE = 'object_not_in_prerequisite_state',
                          HINT = 'Take the schema and the table that it was run with, and a released version of the crate.';
            END IF;
        END IF;
        EXIT WHEN v_locked;
        -- Of several servers one is first. The others wait, however long it takes, and then find the migration done.
        v_set := pg_catalog.set_config('lock_timeout', '0', true);
        PERFORM pg_catalog.pg_advisory_xact_lock(7594306392365691953);
        v_set := pg_catalog.set_config('lock_timeout', v_limit, true);
        v_locked := true;
    END LOOP;

    FOR v_index IN 1..pg_catalog.cardinality(v_names) LOOP
        v_role[v_index] := pg_catalog.current_setting(v_names[v_index]);
        v_set := pg_catalog.set_config(v_names[v_index], v_values[v_index], true);
    END LOOP;

    v_there := ARRAY(
        SELECT format('%s %s', o.catalog, o.id)
        FROM (
            SELECT c.tableoid, c.oid, c.relnamespace FROM pg_class c
            UNION ALL SELECT p.tableoid, p.oid, p.pronamespace FROM pg_proc p
            UNION ALL SELECT n.tableoid, n.oid, n.oid FROM pg_namespace n
        ) AS o (catalog, id, space)
        JOIN pg_namespace n ON n.oid = o.space AND n.nspname IN ('{schema}', 'authn')
    );

    EXECUTE $migration$
{sql}$migration$;

    INSERT INTO tenant.idempotency_migrations (version, name, checksum) VALUES ({version}, '{name}', '{checksum}');
    -- Default privileges give no role rights on what is new: written by this migration, as its row is, and not there before.
    PERFORM tenant.idempotency_revoke_all(o.catalog, o.id)
    FROM (
        SELECT c.tableoid, c.oid, c.relnamespace, c.xmin FROM pg_class c
        UNION ALL SELECT p.tableoid, p.oid, p.pronamespace, p.xmin FROM pg_proc p
        UNION ALL SELECT n.tableoid, n.oid, n.oid, n.xmin FROM pg_namespace n
    ) AS o (catalog, id, space, written)
    JOIN pg_namespace n ON n.oid = o.space AND n.nspname IN ('{schema}', 'authn')
    JOIN tenant.idempotency_migrations m ON m.version = {version} AND m.xmin = o.written
    WHERE format('%s %s', o.catalog, o.id) <> ALL (v_there);

    FOR v_index IN 1..pg_catalog.cardinality(v_names) LOOP
        v_set := pg_catalog.set_config(v_names[v_index], v_role[v_index], true);
    END LOOP;
END
$once$;

DO $limits$
BEGIN
    PERFORM pg_catalog.set_config(s.name, pg_catalog.current_setting('app.idempotency_' OPERATOR(pg_catalog.||) s.name, true), true)
    FROM pg_catalog.pg_settings s
    WHERE s.name OPERATOR(pg_catalog.=) ANY (ARRAY['statement_timeout', 'transaction_timeout'])
      AND pg_catalog.current_setting('app.idempotency_' OPERATOR(pg_catalog.||) s.name, true) OPERATOR(pg_catalog.<>) '';
END
$limits$;
