-- The table of idempotency keys and its row-level security, without any resource type.
--
-- Works in any database, also in one with a table made by the Go interceptor's migrations: it adds missing columns,
-- constraints and indexes, removes nothing, and leaves the rights of the table's owner as they are. Run the migrations as
-- the role that will own the table, or that owns it. Then run:
--
--   SELECT tenant.idempotency_register_resource('project', 'project_id', 'tenant.projects');   -- for each resource type
--   SELECT tenant.idempotency_validate();
--   SELECT tenant.idempotency_grant('my_api_role');                                             -- for the API's own role
--
-- The states of a row and their columns:
--
--   reserved   neither response_bytes nor error_bytes; `token` is the fencing token, `lease_expires` the end of the lease
--              (NULL in a reservation of the Go interceptor), `attempts` the number of calls that have held the reservation
--   unknown    reserved, with outcome_unknown and an ended lease: a call that held the reservation has ended, and it is not
--              known whether it took effect. A takeover keeps outcome_unknown
--   completed  response_bytes IS NOT NULL (an empty message is zero bytes); response_metadata if there is some to replay
--   not_stored completed, with response_not_stored: the response was too large to store, or was erased
--   failed     error_bytes IS NOT NULL: an error that ended the operation. The Go interceptor treats the row as reserved
--   (absent)   no row, or expires <= now

CREATE SCHEMA IF NOT EXISTS tenant;
CREATE SCHEMA IF NOT EXISTS authn;

-- The migrations that the database has, whoever ran them. Each adds itself, with a checksum of its SQL.
CREATE TABLE IF NOT EXISTS tenant.idempotency_migrations (
    version  integer     CONSTRAINT idempotency_migrations_pk PRIMARY KEY,
    name     text        NOT NULL,
    checksum text        NOT NULL,
    ran      timestamptz NOT NULL DEFAULT now()
);

-- Returns the version of the functions. It is raised when a function changes that the store calls: the store compares it
-- with its own.
CREATE OR REPLACE FUNCTION tenant.idempotency_version() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $version$ SELECT 9 $version$;

-- Returns the function authn.current_user_id() if it returns a uuid, as that of the Go interceptor does, and NULL if it returns the user of
-- another kind, which is no owner. Called by all that name it.
CREATE OR REPLACE FUNCTION tenant.idempotency_user_function() RETURNS regprocedure
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $user$
BEGIN
    RETURN (
        SELECT p.oid FROM pg_proc p JOIN pg_type t ON t.oid = p.prorettype
        WHERE p.oid = to_regprocedure('authn.current_user_id()')
          AND coalesce(nullif(t.typbasetype, 0), t.oid) = 'uuid'::regtype AND NOT p.proretset
    );
END
$user$;

-- Revokes all rights on an object that was just made from all roles but its owner: those of PUBLIC, and those that default privileges of
-- the owner have added. Called wherever a table, a routine or a schema is made.
CREATE OR REPLACE FUNCTION tenant.idempotency_revoke_all(p_catalog regclass, p_object oid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $revoke$
DECLARE
    v_revoke text;
BEGIN
    FOR v_revoke IN
        SELECT DISTINCT format('REVOKE ALL ON %s FROM %s', o.name, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
        FROM (
            SELECT c.tableoid, c.oid, 'TABLE ' || c.oid::regclass, c.relowner, c.relacl FROM pg_class c
            UNION ALL
            SELECT p.tableoid, p.oid, 'ROUTINE ' || p.oid::regprocedure, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
            FROM pg_proc p
            UNION ALL
            SELECT n.tableoid, n.oid, 'SCHEMA ' || n.oid::regnamespace, n.nspowner, n.nspacl FROM pg_namespace n
        ) AS o (catalog, id, name, owner, rights)
        CROSS JOIN aclexplode(o.rights) a
        WHERE o.catalog = p_catalog AND o.id = p_object AND a.grantee <> o.owner
    LOOP
        EXECUTE v_revoke;
    END LOOP;
END
$revoke$;

-- Returns the user of the transaction: the setting `app.current_user_id`, or NULL if it is not set. If the application
-- already has a function with this name, it is not replaced.
DO $adopt$
BEGIN
    IF to_regprocedure('authn.current_user_id()') IS NULL THEN
        CREATE FUNCTION authn.current_user_id() RETURNS uuid
        LANGUAGE sql STABLE PARALLEL SAFE
        RETURN nullif(current_setting('app.current_user_id', true), '')::uuid;
    ELSIF to_regprocedure('authn.current_user_id()') IS DISTINCT FROM tenant.idempotency_user_function() THEN
        RAISE NOTICE 'authn.current_user_id() does not return a uuid: the policies of the layer leave it out'
            USING HINT = 'The layer sets the owner of its records itself. Other statements see none.';
    END IF;
END
$adopt$;

-- Adapts the objects that depend on the server's version and on the table's owner to the current ones:
--
--   tenant.idempotency_uuidv7, which returns a UUIDv7 (RFC 9562 section 5.7) of the current millisecond: with uuidv7() of PostgreSQL 18, if
--   the server has it
--   policies, rights and owners: tenant.idempotency_repairs
--
-- Run it again after an upgrade of the server and after a change of owner (REASSIGN OWNED, ALTER TABLE ... OWNER TO), as migrations::run
-- does. An object that is right is neither changed nor locked. An object that this role may not change stays, with a warning.
CREATE OR REPLACE FUNCTION tenant.idempotency_adapt() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms' AS $adapt$
DECLARE
    v_made CONSTANT regprocedure := to_regprocedure('tenant.idempotency_uuidv7()');
    v_repair text;
BEGIN
    IF v_made IS NULL AND to_regprocedure('pg_catalog.uuidv7()') IS NULL THEN
        CREATE FUNCTION tenant.idempotency_uuidv7() RETURNS uuid
        LANGUAGE sql VOLATILE PARALLEL SAFE
        RETURN encode(
            set_bit(
                set_bit(
                    overlay(
                        uuid_send(gen_random_uuid())
                        PLACING substring(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
                        FROM 1 FOR 6
                    ),
                    52, 1
                ),
                53, 1
            ),
            'hex'
        )::uuid;
    ELSIF to_regprocedure('pg_catalog.uuidv7()') IS NOT NULL AND (
        v_made IS NULL
        OR EXISTS (
            SELECT FROM pg_proc p
            WHERE p.oid = v_made
              AND pg_get_function_sqlbody(p.oid) IS DISTINCT FROM 'RETURN uuidv7()'
              AND pg_has_role(p.proowner, 'USAGE')
              AND has_schema_privilege(p.pronamespace, 'CREATE')
        )
    ) THEN
        CREATE OR REPLACE FUNCTION tenant.idempotency_uuidv7() RETURNS uuid
        LANGUAGE sql VOLATILE PARALLEL SAFE
        RETURN uuidv7();
    END IF;
    IF v_made IS NULL THEN
        PERFORM tenant.idempotency_revoke_all('pg_proc', 'tenant.idempotency_uuidv7()'::regprocedure);
    END IF;

    IF has_function_privilege(to_regprocedure('tenant.idempotency_repairs()'), 'EXECUTE') THEN
        FOR v_repair IN SELECT r FROM tenant.idempotency_repairs() r LOOP
            BEGIN
                EXECUTE v_repair;
            EXCEPTION WHEN insufficient_privilege THEN
                RAISE WARNING '%: %', v_repair, SQLERRM USING HINT = 'Run it as a superuser, or as a member of both roles.';
            END;
        END LOOP;
    END IF;
END
$adapt$;

SELECT tenant.idempotency_adapt();

-- The table with the columns that the Go interceptor's table has, too. Row-level security is forced on it: it also applies
-- to the owner. A table that exists is adopted, and its owner keeps the exemption:
-- ALTER TABLE tenant.idempotency_keys FORCE ROW LEVEL SECURITY ends that.
DO $create$
BEGIN
    IF to_regclass('tenant.idempotency_keys') IS NULL THEN
        CREATE TABLE tenant.idempotency_keys (
            id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7(),
            idempotency_key uuid        NOT NULL,
            user_id         uuid        NOT NULL,
            procedure       text        NOT NULL,
            request_hash    bytea       NOT NULL,
            response_bytes  bytea,
            created         timestamptz NOT NULL DEFAULT now(),
            expires         timestamptz NOT NULL,
            CONSTRAINT idempotency_keys_pk PRIMARY KEY (id)
        );
        ALTER TABLE tenant.idempotency_keys FORCE ROW LEVEL SECURITY;
    END IF;
END
$create$;

-- The columns that the Go interceptor's table does not have. They are nullable or have a default, so that the Go
-- interceptor's statements still work. response_metadata holds the headers and trailers that are replayed with the
-- message, as encoded by the layer; NULL if there are none. arrival_hash is the hash of the request as it arrived; NULL if
-- it is request_hash, that of the canonical encoding, or not known. completed is when the outcome was recorded; NULL if there is
-- none, or if the Go interceptor recorded it. resource_name is `type/id` of a created resource whose type has no column of its own.
DO $columns$
BEGIN
    IF (SELECT count(*) FROM pg_attribute a
        WHERE a.attrelid = 'tenant.idempotency_keys'::regclass AND NOT a.attisdropped
          AND a.attname IN ('token', 'lease_expires', 'attempts', 'outcome_unknown', 'response_not_stored',
                            'response_metadata', 'error_bytes', 'arrival_hash', 'completed', 'resource_name')) < 10 THEN
        ALTER TABLE tenant.idempotency_keys
            ADD COLUMN IF NOT EXISTS token               uuid,
            ADD COLUMN IF NOT EXISTS lease_expires       timestamptz,
            ADD COLUMN IF NOT EXISTS attempts            integer NOT NULL DEFAULT 1,
            ADD COLUMN IF NOT EXISTS outcome_unknown     boolean NOT NULL DEFAULT false,
            ADD COLUMN IF NOT EXISTS response_not_stored boolean NOT NULL DEFAULT false,
            ADD COLUMN IF NOT EXISTS response_metadata   bytea,
            ADD COLUMN IF NOT EXISTS error_bytes         bytea,
            ADD COLUMN IF NOT EXISTS arrival_hash        bytea,
            ADD COLUMN IF NOT EXISTS completed           timestamptz,
            ADD COLUMN IF NOT EXISTS resource_name       text;
    END IF;
END
$columns$;

-- No statistics of columns that identify a user, or belong to one: EXPLAIN shows estimates to each role that may read the table, and the
-- planner makes them of other users' values, too. It does not need them: a record is found by its key and user, which are unique. Nor does
-- it look at the ends of an index of users without them. Statistics that ANALYZE has gathered before stay until a superuser deletes them.
DO $statistics$
DECLARE
    v_column name;
BEGIN
    FOR v_column IN
        SELECT a.attname FROM pg_attribute a
        WHERE a.attrelid = 'tenant.idempotency_keys'::regclass AND coalesce(a.attstattarget, -1) <> 0
          AND a.attname IN ('idempotency_key', 'user_id', 'request_hash', 'arrival_hash', 'token', 'response_bytes',
                            'response_metadata', 'error_bytes', 'resource_name')
    LOOP
        EXECUTE format('ALTER TABLE tenant.idempotency_keys ALTER COLUMN %I SET STATISTICS 0', v_column);
    END LOOP;
END
$statistics$;

-- Responses of more than about 2 KB are compressed with lz4, if the server was built with it: PostgreSQL's own method takes several
-- times as long as all the rest of a call. A method or a storage that was chosen for the column stays.
DO $compression$
BEGIN
    IF EXISTS (
        SELECT FROM pg_attribute a
        WHERE a.attrelid = 'tenant.idempotency_keys'::regclass AND a.attname = 'response_bytes'
          AND a.attstorage = 'x' AND a.attcompression = ''
    ) AND EXISTS (
        SELECT FROM pg_settings s WHERE s.name = 'default_toast_compression' AND 'lz4' = ANY (s.enumvals)
    ) THEN
        ALTER TABLE tenant.idempotency_keys ALTER COLUMN response_bytes SET COMPRESSION lz4;
    END IF;
END
$compression$;

-- The constraints are not validated here: that would read a large table under a lock that excludes everything.
-- tenant.idempotency_validate does it, in a later migration.
DO $adopt$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_index i
        WHERE i.indrelid = v_table AND i.indisunique AND i.indpred IS NULL AND i.indnkeyatts = 2
          AND (SELECT array_agg(a.attname::text ORDER BY a.attname) FROM pg_attribute a
               WHERE a.attrelid = v_table AND a.attnum = ANY (i.indkey)) = ARRAY['idempotency_key', 'user_id']
    ) THEN
        ALTER TABLE tenant.idempotency_keys
            ADD CONSTRAINT idempotency_keys_uq_key_user UNIQUE (idempotency_key, user_id);
    END IF;

    IF NOT EXISTS (
        SELECT FROM pg_index i
        JOIN pg_attribute a ON a.attrelid = v_table AND a.attnum = i.indkey[0]
        WHERE i.indrelid = v_table AND a.attname = 'expires' AND i.indpred IS NULL
    ) THEN
        CREATE INDEX idempotency_keys_idx_expires ON tenant.idempotency_keys (expires);
    END IF;

    IF NOT EXISTS (
        SELECT FROM pg_constraint WHERE conrelid = v_table AND conname = 'idempotency_keys_ck_one_outcome'
    ) THEN
        ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT idempotency_keys_ck_one_outcome
            CHECK (num_nonnulls(response_bytes, error_bytes, nullif(outcome_unknown, false)) <= 1) NOT VALID;
    END IF;
END
$adopt$;

-- Each owner sees and writes its own rows. The owner of a transaction is the layer's own setting `idempotency.owner`; only
-- where that is not set, it is the application's user: for the Go interceptor, and for statements by hand.
--
-- The sweep and the recovery see rows of all owners: as the table's owner, in functions that run with its rights, and that
-- alone set `app.idempotency_sight`. Their policies are for the table's owner, so that no other role can use the setting, and
-- no other role's look-ups pay for them.
--
-- The recovery sees rows of every state, so that it can read so many at a time.
--
-- The sweep needs three policies: PostgreSQL also applies the SELECT policies to a DELETE with a WHERE clause, and the
-- UPDATE policies to FOR UPDATE. With a policy FOR DELETE alone, its DELETE would find no rows.
DO $rows$
BEGIN
    IF NOT (SELECT c.relrowsecurity FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass) THEN
        ALTER TABLE tenant.idempotency_keys ENABLE ROW LEVEL SECURITY;
    END IF;
END
$rows$;

-- Returns the expression of the owner's policies: the owner that is set, or else the user.
CREATE OR REPLACE FUNCTION tenant.idempotency_owner_set() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $owner$
BEGIN
    RETURN format('coalesce(%s)', concat_ws(
        ', ', 'nullif(current_setting(''idempotency.owner'', true), '''')::uuid', tenant.idempotency_user_function()
    ));
END
$owner$;

-- Returns the policies: of the table, and of each part of it that holds rows, if it has any (`is_of_parts`). Called by
-- tenant.idempotency_policies.
CREATE OR REPLACE FUNCTION tenant.idempotency_policies_of_keys() RETURNS TABLE (
    name name, command text, is_owners boolean, is_of_parts boolean, condition text, checked text
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $policies$
DECLARE
    v_swept CONSTANT text := 'expires <= now() AND current_setting(''app.idempotency_sight'', true) = ''sweep''';
BEGIN
    RETURN QUERY VALUES
        ('idempotency_keys_owner_policy'::name, 'ALL', false, false, 'user_id = ' || tenant.idempotency_owner_set(), ''),
        ('idempotency_keys_sweep_policy', 'SELECT', true, true, v_swept, ''),
        ('idempotency_keys_sweep_lock_policy', 'UPDATE', true, true, v_swept, ' WITH CHECK (false)'),
        ('idempotency_keys_sweep_delete_policy', 'DELETE', true, true, v_swept, ''),
        ('idempotency_keys_recovery_policy', 'SELECT', true, false, 'current_setting(''app.idempotency_sight'', true) = ''recovery''', '');
END
$policies$;

-- Returns the policies that each table has to have. A pack may replace it, so it is made only once. Called by tenant.idempotency_repairs.
DO $hook$
BEGIN
    IF to_regprocedure('tenant.idempotency_policies()') IS NULL THEN
        CREATE FUNCTION tenant.idempotency_policies() RETURNS TABLE (
            of_table regclass, name name, command text, is_owners boolean, condition text, checked text
        )
        LANGUAGE plpgsql STABLE
        SET search_path = pg_catalog, pg_temp AS $policies$
        BEGIN
            RETURN QUERY
            SELECT 'tenant.idempotency_keys'::regclass, p.name, p.command, p.is_owners, p.condition, p.checked
            FROM tenant.idempotency_policies_of_keys() p;
        END
        $policies$;
    END IF;
END
$hook$;

-- Returns the statements that make everything right for the owner that the table has now, in an order in which the owner can run them:
-- objects may have been made for an earlier owner. (PostgreSQL changes no policy with an owner. A table, a function and a partition each
-- have their own.) Reads the catalogue only. Called by tenant.idempotency_adapt, and by the store when it verifies the database.
CREATE OR REPLACE FUNCTION tenant.idempotency_repairs() RETURNS SETOF text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $repairs$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
    v_schema CONSTANT oid := (SELECT c.relnamespace FROM pg_class c WHERE c.oid = v_table);
    v_owner CONSTANT regrole := (SELECT c.relowner FROM pg_class c WHERE c.oid = v_table);
BEGIN
    RETURN QUERY
    SELECT format('GRANT %s ON SCHEMA %s TO %s', n.needed, n.id::regnamespace, v_owner)
    FROM (
        SELECT s.oid AS id, CASE WHEN s.oid = v_schema THEN 'USAGE, CREATE' ELSE 'USAGE' END AS needed
        FROM pg_namespace s
        WHERE s.oid = v_schema OR s.nspname = 'authn'
    ) n
    WHERE EXISTS (
        SELECT FROM regexp_split_to_table(n.needed, ', ') p WHERE NOT has_schema_privilege(v_owner, n.id, p)
    );
    RETURN QUERY
    SELECT format('GRANT EXECUTE ON FUNCTION %s TO %s', p.oid::regprocedure, v_owner)
    FROM pg_proc p
    WHERE p.oid = tenant.idempotency_user_function() AND NOT has_function_privilege(v_owner, p.oid, 'EXECUTE');

    -- Tables and routines with this prefix are the layer's, except for the one function that the application replaces.
    RETURN QUERY
    SELECT format('ALTER TABLE %s OWNER TO %s', c.oid::regclass, v_owner)
    FROM pg_class c
    WHERE c.relnamespace = v_schema AND c.relkind IN ('r', 'p') AND c.relowner <> v_owner AND starts_with(c.relname, 'idempotency_')
    ORDER BY 1;
    RETURN QUERY
    SELECT format('ALTER ROUTINE %s OWNER TO %s', p.oid::regprocedure, v_owner)
    FROM pg_proc p
    WHERE p.pronamespace = v_schema AND starts_with(p.proname, 'idempotency_') AND p.proowner <> v_owner
      AND p.proname <> 'idempotency_resource_status'
    ORDER BY 1;

    RETURN QUERY
    SELECT format('CREATE POLICY %I ON %s FOR %s TO %s USING (%s)%s', p.name, p.of_table, p.command,
                  CASE WHEN p.is_owners THEN v_owner::text ELSE 'PUBLIC' END, p.condition, p.checked)
    FROM tenant.idempotency_policies() p
    WHERE NOT EXISTS (SELECT FROM pg_policy e WHERE e.polrelid = p.of_table AND e.polname = p.name)
    UNION ALL
    SELECT format('ALTER POLICY %I ON %s TO %s', e.polname, e.polrelid::regclass, v_owner)
    FROM pg_policy e
    JOIN pg_class c ON c.oid = e.polrelid
    WHERE c.relnamespace = v_schema
      AND e.polroles <> ARRAY[v_owner::oid]
      AND e.polname ~ '^idempotency_.*_(sweep|sweep_lock|sweep_delete|recovery|copy|copy_lock)_policy$'
    ORDER BY 1;
END
$repairs$;

SELECT tenant.idempotency_adapt();
