-- The resource types whose creation is recorded. Each has a nullable column in tenant.idempotency_keys, with a foreign key; at most
-- one of these is set in a row. It has the kind of the key that it references: uuid, bigint or text. Everywhere else, the id of
-- a resource is a text. Types that are not registered share the column resource_name, which holds `type/id`.

CREATE TABLE IF NOT EXISTS tenant.idempotency_resource_types (
    name            text CONSTRAINT idempotency_resource_types_pk PRIMARY KEY,
    resource_column name NOT NULL CONSTRAINT idempotency_resource_types_uq_column UNIQUE,
    resource_table  text NOT NULL
);

-- Makes the functions whose statements have a column for each resource type: the three that write an outcome, and the two that tell
-- a row's resource. Their statements are static SQL, which is planned once per connection: dynamic SQL took 25 % more of the server's
-- processor time for each call. Called by tenant.idempotency_register_resource.
--
-- In the templates, {known} is the list of columns; {columns}, {values} and {sets} assign the column of the type, and set the others to NULL.
CREATE OR REPLACE FUNCTION tenant.idempotency_write_statements() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $write$
DECLARE
    v_known   text; -- , 'project_id', ...
    v_columns text; -- , project_id, ...
    v_values  text; -- , CASE WHEN p_resource_column = 'project_id' THEN p_resource::uuid END, ...
    v_sets    text; -- , project_id = CASE ...
    v_ids     text; -- , k.project_id::text, ...
    v_names   text; --  WHEN k.project_id IS NOT NULL THEN 'project' ...
    v_statement text;
BEGIN
    SELECT string_agg(format(', %L', t.resource_column), '' ORDER BY t.name),
           string_agg(format(', %I', t.resource_column), '' ORDER BY t.name),
           string_agg(format(', %s', t.value), '' ORDER BY t.name),
           string_agg(format(', %I = %s', t.resource_column, t.value), '' ORDER BY t.name),
           coalesce(string_agg(format(', k.%I::pg_catalog.text', t.resource_column), '' ORDER BY t.name) FILTER (WHERE t.name <> ''), ''),
           coalesce(string_agg(format(' WHEN k.%I IS NOT NULL THEN %L', t.resource_column, t.name), '' ORDER BY t.name)
                    FILTER (WHERE t.name <> ''), '')
    INTO v_known, v_columns, v_values, v_sets, v_ids, v_names
    FROM (
        SELECT r.name, r.resource_column,
               format('CASE WHEN p_resource_column = %L THEN p_resource::%s END', r.resource_column, format_type(a.atttypid, NULL)) AS value
        FROM (
            SELECT t.name, t.resource_column FROM tenant.idempotency_resource_types t
            UNION ALL
            VALUES ('', 'resource_name')
        ) r
        JOIN pg_attribute a ON a.attrelid = 'tenant.idempotency_keys'::regclass AND a.attname = r.resource_column
                           AND NOT a.attisdropped
    ) t;

    FOREACH v_statement IN ARRAY ARRAY[
        -- For tenant.idempotency_complete, which calls it. Does not change `expires` if it is right to within 1 % of the retention: the
        -- column is indexed, and an update of it costs an entry in every index.
        $template$
        CREATE OR REPLACE FUNCTION tenant.idempotency_complete_row(
            p_user uuid, p_key uuid, p_token uuid, p_response bytea, p_not_stored boolean, p_error bytea, p_metadata bytea,
            p_retention double precision, p_resource_column text, p_resource text, OUT outcome text
        )
        LANGUAGE plpgsql AS $complete_row$
        DECLARE
            v_now CONSTANT timestamptz := clock_timestamp();
            v_expires CONSTANT timestamptz := v_now + make_interval(secs => p_retention);
            v_set text;
            k record;
        BEGIN
            IF p_resource_column <> ALL (ARRAY[''{known}]) THEN
                v_set := tenant.idempotency_needs_type(p_resource_column);
            END IF;
            -- Twice, if the claim commits between the two statements.
            FOR v_round IN 1..2 LOOP
                UPDATE tenant.idempotency_keys x
                SET response_bytes      = p_response,
                    response_metadata   = p_metadata,
                    response_not_stored = p_not_stored,
                    error_bytes         = p_error,
                    outcome_unknown     = false,
                    completed           = v_now,
                    expires             = CASE WHEN abs(date_part('epoch', x.expires - v_expires)) <= p_retention / 100
                                               THEN x.expires ELSE v_expires END
                    {sets}
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
                EXIT WHEN k.id IS NULL OR outcome = 'already_completed';
            END LOOP;
        END
        $complete_row$
        $template$,

        -- complete, for several reservations with these tokens: a part of tenant.idempotency_write_many, which calls it. Returns the
        -- tokens of those that were completed, 16 bytes each, NULL if there are none. A reservation that is not held is left as it is,
        -- and one whose resource has no type here.
        $template$
        CREATE OR REPLACE FUNCTION tenant.idempotency_complete_many(
            p_users uuid[], p_keys uuid[], p_tokens uuid[], p_responses bytea[], p_not_stored boolean[], p_errors bytea[],
            p_metadata bytea[], p_retentions double precision[], p_resource_columns text[], p_resources text[],
            OUT completed bytea
        )
        LANGUAGE plpgsql AS $complete_many$
        DECLARE
            v_now CONSTANT timestamptz := clock_timestamp();
        BEGIN
            WITH recorded AS (
                UPDATE tenant.idempotency_keys k
                SET response_bytes      = q.response,
                    response_metadata   = q.metadata,
                    response_not_stored = q.not_stored,
                    error_bytes         = q.error,
                    outcome_unknown     = false,
                    completed           = v_now,
                    expires             = CASE WHEN abs(date_part('epoch', k.expires - q.expires)) <= q.retention / 100
                                               THEN k.expires ELSE q.expires END
                    {sets}
                FROM (
                    SELECT u.*, v_now + make_interval(secs => u.retention) AS expires, f.at
                    FROM (
                        SELECT u.*,
                               set_config('idempotency.owner', u.owner::text, true) AS owner_set,
                               set_config('app.current_user_id', u.owner::text, true) AS app_user_set
                        FROM (
                            SELECT u.*
                            FROM unnest(p_users, p_keys, p_tokens, p_responses, p_not_stored, p_errors, p_metadata,
                                        p_retentions, p_resource_columns, p_resources)
                                 AS u (owner, key, token, response, not_stored, error, metadata, retention, p_resource_column,
                                       p_resource)
                            WHERE u.p_resource_column IS NULL OR u.p_resource_column = ANY (ARRAY[''{known}])
                            ORDER BY u.owner, u.key
                        ) u
                        OFFSET 0
                    ) u
                    CROSS JOIN LATERAL (
                        SELECT k.ctid AS at
                        FROM tenant.idempotency_keys k
                        WHERE k.idempotency_key = u.key AND k.user_id = u.owner
                          AND u.app_user_set IS NOT NULL
                        LIMIT 1
                    ) f
                    WHERE u.owner_set = u.owner::text
                    OFFSET 0
                ) q
                WHERE k.ctid = q.at
                  AND k.idempotency_key = q.key
                  AND k.user_id = q.owner
                  AND k.token = q.token
                  AND k.response_bytes IS NULL
                  AND k.error_bytes IS NULL
                RETURNING k.token
            )
            SELECT string_agg(uuid_send(recorded.token), '') INTO completed FROM recorded;
        END
        $complete_many$
        $template$,

        -- Returns whether the key had no row. For tenant.idempotency_commit_row, which calls it.
        $template$
        CREATE OR REPLACE FUNCTION tenant.idempotency_insert_record(
            p_user uuid, p_key uuid, p_token uuid, p_procedure text, p_request_hash bytea, p_arrival_hash bytea, p_response bytea,
            p_not_stored boolean, p_error bytea, p_metadata bytea, p_retention double precision, p_resource_column text,
            p_resource text, p_id uuid
        ) RETURNS boolean
        LANGUAGE plpgsql AS $insert_record$
        DECLARE
            v_now CONSTANT timestamptz := clock_timestamp();
            v_expires CONSTANT timestamptz := v_now + make_interval(secs => p_retention);
            v_set text;
        BEGIN
            IF p_resource_column <> ALL (ARRAY[''{known}]) THEN
                v_set := tenant.idempotency_needs_type(p_resource_column);
            END IF;
            INSERT INTO tenant.idempotency_keys
                (id, idempotency_key, user_id, token, procedure, request_hash, arrival_hash, response_bytes,
                 response_metadata, response_not_stored, error_bytes, completed, expires {columns})
            VALUES (p_id, p_key, p_user, p_token, p_procedure, p_request_hash, p_arrival_hash, p_response, p_metadata,
                    p_not_stored, p_error, v_now, v_expires {values})
            ON CONFLICT (idempotency_key, user_id) DO NOTHING;
            RETURN FOUND;
        END
        $insert_record$
        $template$,

        -- Return the id and the type of the created resource of a row; NULL for none. Called by all that find an outcome.
        $template$
        CREATE OR REPLACE FUNCTION tenant.idempotency_resource_id(k record) RETURNS text
        LANGUAGE plpgsql STABLE PARALLEL SAFE AS $id$
        BEGIN
            RETURN coalesce(substring(k.resource_name FROM 1 + position('/' IN k.resource_name)){ids});
        END
        $id$
        $template$,
        $template$
        CREATE OR REPLACE FUNCTION tenant.idempotency_resource_type(k record) RETURNS text
        LANGUAGE plpgsql STABLE PARALLEL SAFE AS $type$
        BEGIN
            RETURN CASE WHEN k.resource_name IS NOT NULL THEN split_part(k.resource_name, '/', 1){names} END;
        END
        $type$
        $template$
    ] LOOP
        v_statement := replace(replace(v_statement, '{known}', v_known), '{columns}', v_columns);
        v_statement := replace(replace(v_statement, '{values}', v_values), '{sets}', v_sets);
        EXECUTE replace(replace(v_statement, '{ids}', v_ids), '{names}', v_names);
    END LOOP;
END
$write$;

-- Fails: the store knows a resource type that the database does not. Called by the functions that write an outcome.
CREATE OR REPLACE FUNCTION tenant.idempotency_needs_type(p_column text) RETURNS text
LANGUAGE plpgsql AS $needs_type$
BEGIN
    RAISE EXCEPTION 'no resource type has the column %', p_column USING ERRCODE = 'undefined_column', HINT = '42703';
END
$needs_type$;

SELECT tenant.idempotency_write_statements();

-- Returns what is missing of a resource type: 'types', 'column', 'foreign key', 'check' or 'index'; no rows if it is
-- registered. Reads the catalogue only. Called by tenant.idempotency_register_resource.
CREATE OR REPLACE FUNCTION tenant.idempotency_unregistered(p_name text, p_column name, p_table regclass)
RETURNS SETOF text
LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH keys AS (
        SELECT c.oid AS id, a.attnum AS attribute
        FROM pg_class c
        LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = p_column AND NOT a.attisdropped
        WHERE c.oid = 'tenant.idempotency_keys'::regclass
    )
    SELECT missing.part
    FROM keys
    CROSS JOIN LATERAL (VALUES
        ('types', NOT EXISTS (
            SELECT FROM tenant.idempotency_resource_types t
            WHERE t.name = p_name AND t.resource_column = p_column
        )),
        ('column', keys.attribute IS NULL),
        ('foreign key', NOT EXISTS (
            SELECT FROM pg_constraint c
            WHERE c.conrelid = keys.id AND c.contype = 'f' AND keys.attribute = ANY (c.conkey)
              AND c.confrelid = p_table
        )),
        ('check', NOT EXISTS (
            SELECT FROM pg_constraint c
            WHERE c.conrelid = keys.id AND c.conname = 'idempotency_keys_ck_one_resource'
              AND keys.attribute = ANY (c.conkey)
        )),
        ('index', NOT EXISTS (
            SELECT FROM pg_index i
            WHERE i.indrelid = keys.id AND i.indkey[0] = keys.attribute AND i.indisvalid
              AND coalesce(pg_get_expr(i.indpred, i.indrelid) = format('(%I IS NOT NULL)', p_column), true)
        ))
    ) AS missing (part, is_missing)
    WHERE missing.is_missing;
END;

-- Returns the type of the column that references the `id` of a table: that of the ids, where all integers are bigint, and a
-- varchar is text. NULL if ids of their type are not supported, or if there is no such column. Called by
-- tenant.idempotency_register_resource.
CREATE OR REPLACE FUNCTION tenant.idempotency_id_type(p_table regclass) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT CASE
        WHEN i.base IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) THEN 'bigint'
        WHEN i.base IN ('text'::regtype, 'varchar'::regtype) THEN 'text'
        WHEN i.base = 'uuid'::regtype THEN 'uuid'
    END
    FROM (
        SELECT coalesce(nullif(t.typbasetype, 0), t.oid) AS base
        FROM pg_attribute a
        JOIN pg_type t ON t.oid = a.atttypid
        WHERE a.attrelid = p_table AND a.attname = 'id' AND NOT a.attisdropped
    ) i;
END;

-- Registers a resource type: its name, its column in tenant.idempotency_keys (added if it does not exist), and the
-- table whose `id` the column references, and whose kind it has. Run it as the owner of tenant.idempotency_keys, and tenant.idempotency_validate
-- in a later transaction: the constraints are enforced from here on, but are not validated for existing rows. A type that
-- is registered changes nothing and locks nothing. If another table has been given the name since, the foreign key moves to it.
--
-- Otherwise it waits at most half a second for each lock, since every claim would wait behind it, and then fails with
-- lock_not_available. The index is what deleting a resource looks its record up by. It is built while claims wait: for a
-- large table, create the column and the index CONCURRENTLY before.
--
-- If a resource is deleted, its id is removed from the record, but the record stays: a retry still gets the first
-- response.
CREATE OR REPLACE FUNCTION tenant.idempotency_register_resource(p_name text, p_column name, p_table regclass)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms' AS $register$
DECLARE
    v_missing text[] := ARRAY(SELECT tenant.idempotency_unregistered(p_name, p_column, p_table));
    v_type    text;
    v_columns text;
    v_renamed name;
BEGIN
    IF v_missing = '{}' THEN
        RETURN;
    END IF;
    -- One server at a time. Others can still read.
    LOCK TABLE tenant.idempotency_resource_types IN SHARE ROW EXCLUSIVE MODE;
    v_missing := ARRAY(SELECT tenant.idempotency_unregistered(p_name, p_column, p_table));

    IF 'column' = ANY (v_missing) THEN
        v_type := tenant.idempotency_id_type(p_table);
        IF v_type IS NULL THEN
            RAISE EXCEPTION 'the resource type % is not registered: % has no column id of a type that is supported',
                p_name, p_table
                USING ERRCODE = 'datatype_mismatch',
                      HINT = 'Its ids have to be of the type uuid, smallint, integer, bigint, text or varchar.';
        END IF;
        EXECUTE format('ALTER TABLE tenant.idempotency_keys ADD COLUMN %I %s', p_column, v_type);
    END IF;
    -- As of all that belongs to a user. Citus refuses it for a distributed table: its pack does it.
    BEGIN
        EXECUTE format('ALTER TABLE tenant.idempotency_keys ALTER COLUMN %I SET STATISTICS 0', p_column);
    EXCEPTION WHEN feature_not_supported THEN
        NULL;
    END;
    IF 'foreign key' = ANY (v_missing) THEN
        -- A registered type's foreign key to another table: one that had this name before.
        FOR v_renamed IN
            SELECT c.conname
            FROM pg_constraint c
            JOIN pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum]
            WHERE c.conrelid = 'tenant.idempotency_keys'::regclass AND c.contype = 'f' AND c.conparentid = 0
              AND a.attname = p_column AND 'types' <> ALL (v_missing)
        LOOP
            EXECUTE format('ALTER TABLE tenant.idempotency_keys DROP CONSTRAINT %I', v_renamed);
        END LOOP;
        -- A partitioned table has no foreign key that is not valid: its rows are read here.
        BEGIN
            EXECUTE format(
                'ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT %I FOREIGN KEY (%I) REFERENCES %s (id) '
                'ON DELETE SET NULL%s',
                'idempotency_keys_fk_' || p_name, p_column, p_table,
                CASE WHEN EXISTS (
                    SELECT FROM pg_partitioned_table p WHERE p.partrelid = 'tenant.idempotency_keys'::regclass
                ) THEN '' ELSE ' NOT VALID' END
            );
        EXCEPTION WHEN foreign_key_violation THEN
            RAISE WARNING 'records refer to a % that % does not have: it is not referenced', p_name, p_table
                USING HINT = 'Register the type again when these records have expired.';
        END;
    END IF;
    IF 'index' = ANY (v_missing) THEN
        EXECUTE format(
            'CREATE INDEX %I ON tenant.idempotency_keys (%I) WHERE %I IS NOT NULL',
            'idempotency_keys_idx_' || p_name, p_column, p_column
        );
    END IF;
    IF v_missing && ARRAY['types', 'foreign key', 'check'] THEN
        INSERT INTO tenant.idempotency_resource_types (name, resource_column, resource_table)
        VALUES (p_name, p_column, p_table::text)
        ON CONFLICT (name) DO UPDATE
            SET resource_column = excluded.resource_column, resource_table = excluded.resource_table;

        SELECT string_agg(format('%I', t.resource_column), ', ' ORDER BY t.name)
        INTO v_columns
        FROM tenant.idempotency_resource_types t;
        ALTER TABLE tenant.idempotency_keys DROP CONSTRAINT IF EXISTS idempotency_keys_ck_one_resource;
        EXECUTE format(
            'ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT idempotency_keys_ck_one_resource '
            'CHECK (num_nonnulls(resource_name, %s) <= 1) NOT VALID',
            v_columns
        );

        PERFORM tenant.idempotency_write_statements();
    END IF;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'the resource type % is not registered: another transaction locks tenant.idempotency_keys or %',
        p_name, p_table
        USING ERRCODE = 'lock_not_available',
              HINT = 'Register it again when no transaction on these tables has been open for long.';
END
$register$;

-- Validates the constraints of tenant.idempotency_keys that were added without reading its rows. It reads them now; claims
-- go on meanwhile, if it runs in a transaction of its own. Validated constraints change nothing and lock nothing. A foreign key that some
-- rows do not fit stays as it is, with a warning.
CREATE OR REPLACE FUNCTION tenant.idempotency_validate() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms' AS $validate$
DECLARE
    v_constraint name;
BEGIN
    FOR v_constraint IN
        SELECT c.conname FROM pg_constraint c
        WHERE c.conrelid = 'tenant.idempotency_keys'::regclass
          AND NOT c.convalidated
          AND starts_with(c.conname, 'idempotency_keys_')
        ORDER BY c.conname
    LOOP
        BEGIN
            EXECUTE format('ALTER TABLE tenant.idempotency_keys VALIDATE CONSTRAINT %I', v_constraint);
        EXCEPTION WHEN foreign_key_violation THEN
            RAISE WARNING 'records do not fit the foreign key %, which holds for others', v_constraint
                USING HINT = 'Validate it again when these records have expired.';
        END;
    END LOOP;
END
$validate$;
