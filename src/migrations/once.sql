-- Migration {version} of tonic-idempotency: {name}. Changes nothing if the database has it.
DO $once$
DECLARE
    v_ran    pg_catalog.text;
    v_locked pg_catalog.bool := false;
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
        -- Of several servers one is first. The others wait, and then find the migration done.
        PERFORM pg_catalog.pg_advisory_xact_lock(7594306392365691953);
        v_locked := true;
    END LOOP;

    EXECUTE $migration$
{sql}$migration$;

    INSERT INTO tenant.idempotency_migrations (version, name, checksum) VALUES ({version}, '{name}', '{checksum}');
END
$once$;
