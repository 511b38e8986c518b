-- The resource types whose creation is recorded: for each a nullable foreign key in tenant.idempotency_keys, at most one
-- of them set in a row.

CREATE TABLE IF NOT EXISTS tenant.idempotency_resource_types (
    name            text CONSTRAINT idempotency_resource_types_pk PRIMARY KEY,
    resource_column name NOT NULL CONSTRAINT idempotency_resource_types_uq_column UNIQUE,
    resource_table  text NOT NULL
);

-- Registers a resource type: its name, its column in tenant.idempotency_keys (added where there is none) and the table
-- whose `id` that column references. Registering one again changes nothing. Run it as the owner of the table.
--
-- A resource that is deleted takes its id out of the record, not the record: a retry still gets the first response.
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
END
$register$;
