-- The table of idempotency keys and its row-level security, without any resource type.
--
-- Works in any database, also in one with a table made by the Go interceptor's migrations: it adds missing columns,
-- constraints and indexes, and removes nothing. Run the migrations as the role that will own the table. Then run:
--
--   SELECT tenant.idempotency_register_resource('project', 'project_id', 'tenant.projects');   -- for each resource type
--   SELECT tenant.idempotency_grant('my_api_role');                                             -- for the API's own role
--
-- The states of a row and their columns:
--
--   reserved   neither response_bytes nor error_bytes; `token` is the fencing token, `lease_expires` the end of the lease,
--              `attempts` the number of calls that have held the reservation
--   unknown    reserved, with outcome_unknown and an ended lease: a call that held the reservation has ended, and it is not
--              known whether it took effect. A takeover keeps outcome_unknown
--   completed  response_bytes IS NOT NULL (an empty message is zero bytes); response_metadata if there is some to replay
--   not_stored completed, with response_not_stored: the response was too large to store
--   failed     error_bytes IS NOT NULL: an error that ended the operation. The Go interceptor treats the row as reserved
--   (absent)   no row, or expires <= now

CREATE SCHEMA IF NOT EXISTS tenant;
CREATE SCHEMA IF NOT EXISTS authn;

-- Returns the user of the transaction: the setting `app.current_user_id`, or NULL if it is not set. If the application
-- already has a function with this name, it is not replaced.
DO $adopt$
BEGIN
    IF to_regprocedure('authn.current_user_id()') IS NULL THEN
        CREATE FUNCTION authn.current_user_id() RETURNS uuid
        LANGUAGE sql STABLE PARALLEL SAFE
        RETURN nullif(current_setting('app.current_user_id', true), '')::uuid;
    END IF;
END
$adopt$;

-- Returns a UUIDv7 (RFC 9562 section 5.7) of the current millisecond. PostgreSQL has its own uuidv7() only since
-- version 18.
CREATE OR REPLACE FUNCTION tenant.idempotency_uuidv7() RETURNS uuid
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

CREATE TABLE IF NOT EXISTS tenant.idempotency_keys (
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

-- The columns that the Go interceptor's table does not have. They are nullable or have a default, so that the Go
-- interceptor's statements still work. response_metadata holds the headers and trailers that are replayed with the
-- message, as encoded by the layer; NULL if there are none.
ALTER TABLE tenant.idempotency_keys
    ADD COLUMN IF NOT EXISTS token             uuid,
    ADD COLUMN IF NOT EXISTS lease_expires     timestamptz,
    ADD COLUMN IF NOT EXISTS attempts          integer NOT NULL DEFAULT 1,
    ADD COLUMN IF NOT EXISTS outcome_unknown   boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS response_not_stored  boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS response_metadata bytea,
    ADD COLUMN IF NOT EXISTS error_bytes       bytea;

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
        SELECT FROM pg_constraint WHERE conrelid = v_table AND conname = 'idempotency_keys_ck_not_stored'
    ) THEN
        ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT idempotency_keys_ck_not_stored
            CHECK (NOT response_not_stored OR coalesce(length(response_bytes) = 0, false));
    END IF;

    IF NOT EXISTS (
        SELECT FROM pg_constraint WHERE conrelid = v_table AND conname = 'idempotency_keys_ck_metadata'
    ) THEN
        ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT idempotency_keys_ck_metadata
            CHECK (response_metadata IS NULL OR (response_bytes IS NOT NULL AND NOT response_not_stored));
    END IF;

    IF NOT EXISTS (
        SELECT FROM pg_constraint WHERE conrelid = v_table AND conname = 'idempotency_keys_ck_one_outcome'
    ) THEN
        ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT idempotency_keys_ck_one_outcome
            CHECK (num_nonnulls(response_bytes, error_bytes, nullif(outcome_unknown, false)) <= 1);
    END IF;
END
$adopt$;

-- Row-level security, forced: it also applies to the table's owner.
ALTER TABLE tenant.idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant.idempotency_keys FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS idempotency_keys_user_policy ON tenant.idempotency_keys;
CREATE POLICY idempotency_keys_user_policy ON tenant.idempotency_keys
    FOR ALL
    USING (user_id = authn.current_user_id());

-- The sweep sees the expired rows of all users, but only inside tenant.idempotency_sweep, the only function that sets
-- `app.idempotency_sweep`. It needs three policies: PostgreSQL also applies the SELECT policies to a DELETE with a
-- WHERE clause, and the UPDATE policies to FOR UPDATE. With a policy FOR DELETE alone, the sweep's DELETE would find no
-- rows.
DROP POLICY IF EXISTS idempotency_keys_sweep_policy ON tenant.idempotency_keys;
CREATE POLICY idempotency_keys_sweep_policy ON tenant.idempotency_keys
    FOR SELECT
    USING (expires <= now() AND current_setting('app.idempotency_sweep', true) = 'on');

DROP POLICY IF EXISTS idempotency_keys_sweep_lock_policy ON tenant.idempotency_keys;
CREATE POLICY idempotency_keys_sweep_lock_policy ON tenant.idempotency_keys
    FOR UPDATE
    USING (expires <= now() AND current_setting('app.idempotency_sweep', true) = 'on')
    WITH CHECK (false);

DROP POLICY IF EXISTS idempotency_keys_sweep_delete_policy ON tenant.idempotency_keys;
CREATE POLICY idempotency_keys_sweep_delete_policy ON tenant.idempotency_keys
    FOR DELETE
    USING (expires <= now() AND current_setting('app.idempotency_sweep', true) = 'on');
