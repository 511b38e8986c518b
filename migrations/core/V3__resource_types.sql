-- The resource types whose creation is recorded. Each has a nullable foreign key in tenant.idempotency_keys; at most
-- one of these is set in a row.

CREATE TABLE IF NOT EXISTS tenant.idempotency_resource_types (
    name            text CONSTRAINT idempotency_resource_types_pk PRIMARY KEY,
    resource_column name NOT NULL CONSTRAINT idempotency_resource_types_uq_column UNIQUE,
    resource_table  text NOT NULL
);

-- Creates the functions with the two statements that complete a record, with a column for each resource type. They are
-- static SQL, which is planned once per connection: dynamic SQL took 25 % more of the server's processor time for each
-- call.
CREATE OR REPLACE FUNCTION tenant.idempotency_write_statements() RETURNS void
LANGUAGE plpgsql AS $write$
DECLARE
    v_columns text; -- , project_id, …
    v_values  text; -- , CASE WHEN p_resource_column = 'project_id' THEN p_resource END, …
    v_sets    text; -- , project_id = CASE …
    v_known   text; -- 'project_id', …
BEGIN
    SELECT coalesce(string_agg(format(', %I', t.resource_column), '' ORDER BY t.name), ''),
           coalesce(string_agg(
               format(', CASE WHEN p_resource_column = %L THEN p_resource END', t.resource_column), '' ORDER BY t.name
           ), ''),
           coalesce(string_agg(
               format(', %I = CASE WHEN p_resource_column = %L THEN p_resource END', t.resource_column, t.resource_column),
               '' ORDER BY t.name
           ), ''),
           coalesce(string_agg(format(', %L', t.resource_column), '' ORDER BY t.name), '')
    INTO v_columns, v_values, v_sets, v_known
    FROM tenant.idempotency_resource_types t;

    -- complete: reserved → completed. Only for the reservation with this token; returns whether there was one.
    --
    -- Does not change `expires` if it is right to within 1 % of the retention: the column is indexed, and an update of
    -- it costs an entry in every index.
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION tenant.idempotency_complete_row(
            p_user uuid, p_key uuid, p_token uuid, p_response bytea, p_not_stored boolean, p_error bytea,
            p_metadata bytea, p_retention interval, p_resource_column text, p_resource uuid
        ) RETURNS boolean
        LANGUAGE plpgsql AS $complete_row$
        BEGIN
            IF p_resource_column <> ALL (ARRAY[''%s]) THEN
                RAISE EXCEPTION 'no resource type has the column %%', p_resource_column USING ERRCODE = 'undefined_column';
            END IF;
            UPDATE tenant.idempotency_keys
            SET response_bytes    = p_response,
                response_metadata = p_metadata,
                response_not_stored  = p_not_stored,
                error_bytes       = p_error,
                outcome_unknown   = false,
                expires           = CASE
                                        WHEN abs(extract(epoch FROM expires - clock_timestamp() - p_retention))
                                             <= extract(epoch FROM p_retention) / 100
                                        THEN expires
                                        ELSE clock_timestamp() + p_retention
                                    END
                %s
            WHERE idempotency_key = p_key
              AND user_id = p_user
              AND token = p_token
              AND response_bytes IS NULL
              AND error_bytes IS NULL;
            RETURN FOUND;
        END
        $complete_row$
        $function$,
        v_known, v_sets
    );

    -- insert: absent → completed. Returns whether it was absent.
    EXECUTE format(
        $function$
        CREATE OR REPLACE FUNCTION tenant.idempotency_insert_row(
            p_user uuid, p_key uuid, p_token uuid, p_procedure text, p_request_hash bytea, p_response bytea,
            p_not_stored boolean, p_error bytea, p_metadata bytea, p_retention interval, p_resource_column text,
            p_resource uuid
        ) RETURNS boolean
        LANGUAGE plpgsql AS $insert_row$
        BEGIN
            IF p_resource_column <> ALL (ARRAY[''%s]) THEN
                RAISE EXCEPTION 'no resource type has the column %%', p_resource_column USING ERRCODE = 'undefined_column';
            END IF;
            INSERT INTO tenant.idempotency_keys
                (idempotency_key, user_id, token, procedure, request_hash, response_bytes, response_metadata,
                 response_not_stored, error_bytes, expires %s)
            VALUES (p_key, p_user, p_token, p_procedure, p_request_hash, p_response, p_metadata, p_not_stored, p_error,
                    clock_timestamp() + p_retention %s)
            ON CONFLICT (idempotency_key, user_id) DO NOTHING;
            RETURN FOUND;
        END
        $insert_row$
        $function$,
        v_known, v_columns, v_values
    );
END
$write$;

SELECT tenant.idempotency_write_statements();

-- Registers a resource type: its name, its column in tenant.idempotency_keys (added if it does not exist), and the
-- table whose `id` the column references. Idempotent. Run it as the owner of tenant.idempotency_keys.
--
-- If a resource is deleted, its id is removed from the record, but the record stays: a retry still gets the first
-- response.
CREATE OR REPLACE FUNCTION tenant.idempotency_register_resource(p_name text, p_column name, p_table regclass)
RETURNS void
LANGUAGE plpgsql AS $register$
DECLARE
    v_keys CONSTANT regclass := 'tenant.idempotency_keys';
    v_columns text;
BEGIN
    INSERT INTO tenant.idempotency_resource_types (name, resource_column, resource_table)
    VALUES (p_name, p_column, p_table::text)
    ON CONFLICT (name) DO UPDATE
        SET resource_column = excluded.resource_column, resource_table = excluded.resource_table;

    EXECUTE format('ALTER TABLE tenant.idempotency_keys ADD COLUMN IF NOT EXISTS %I uuid', p_column);

    IF NOT EXISTS (
        SELECT FROM pg_constraint c
        JOIN pg_attribute a ON a.attrelid = v_keys AND a.attnum = c.conkey[1]
        WHERE c.conrelid = v_keys AND c.contype = 'f' AND array_length(c.conkey, 1) = 1
          AND a.attname = p_column AND c.confrelid = p_table
    ) THEN
        EXECUTE format(
            'ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT %I FOREIGN KEY (%I) REFERENCES %s (id) ON DELETE SET NULL',
            'idempotency_keys_fk_' || p_name, p_column, p_table
        );
    END IF;

    SELECT string_agg(format('%I', t.resource_column), ', ' ORDER BY t.name)
    INTO v_columns
    FROM tenant.idempotency_resource_types t;

    ALTER TABLE tenant.idempotency_keys DROP CONSTRAINT IF EXISTS idempotency_keys_ck_one_resource;
    EXECUTE format(
        'ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT idempotency_keys_ck_one_resource '
        'CHECK (num_nonnulls(%s) <= 1)',
        v_columns
    );

    SELECT string_agg(format('k.%I', t.resource_column), ', ' ORDER BY t.name)
    INTO v_columns
    FROM tenant.idempotency_resource_types t;

    EXECUTE format(
        'CREATE OR REPLACE FUNCTION tenant.idempotency_resource_id(k tenant.idempotency_keys) RETURNS uuid '
        'LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $id$ SELECT coalesce(%s) $id$',
        v_columns
    );
    PERFORM tenant.idempotency_write_statements();
END
$register$;
