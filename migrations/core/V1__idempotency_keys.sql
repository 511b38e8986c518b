-- The table of idempotency keys, its row-level security and its functions, without any resource type.
--
-- Fits any database, and adopts a table that FUN-15's own migrations already made: it adds what is missing and takes
-- nothing away. Run it as the role that is to own the table. Then:
--
--   SELECT tenant.idempotency_register_resource('project', 'project_id', 'tenant.projects');   -- for each resource type
--   SELECT tenant.idempotency_grant('my_api_role');                                             -- for the API's own role
--
-- The states of a row, and the checks that hold them:
--
--   reserved   neither response_bytes nor error_bytes; `token` fences, `lease_expires` says how long the reservation is
--              believed, `attempts` how many calls have held it
--   unknown    reserved, with outcome_unknown, its lease ended: a call that held it has ended, and nobody knows whether it
--              took effect. The mark stays when the reservation is taken over
--   completed  response_bytes IS NOT NULL (an empty message is zero bytes); response_metadata where there is some to replay
--   not_stored completed, with response_not_stored: the response was too large to keep
--   failed     error_bytes IS NOT NULL: an error that ended the operation. A FUN-15 server takes it for reserved
--   (absent)   no row, or expires <= now

CREATE SCHEMA IF NOT EXISTS tenant;
CREATE SCHEMA IF NOT EXISTS authn;

-- The user of this transaction: the setting `app.current_user_id`, or NULL where none is set. An application that has
-- such a function keeps its own.
DO $adopt$
BEGIN
    IF to_regprocedure('authn.current_user_id()') IS NULL THEN
        CREATE FUNCTION authn.current_user_id() RETURNS uuid
        LANGUAGE sql STABLE PARALLEL SAFE
        RETURN nullif(current_setting('app.current_user_id', true), '')::uuid;
    END IF;
END
$adopt$;

-- A UUIDv7 (RFC 9562 section 5.7) of the current millisecond; PostgreSQL has one of its own only from 18 on.
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

-- What is ours beside FUN-15's columns: nullable or defaulted, so that FUN-15's own statements still work. The metadata is
-- what is replayed with the message: headers and trailers, as the layer encodes them; NULL where there is none.
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

-- Row-level security, forced: the table's owner is bound by it too.
ALTER TABLE tenant.idempotency_keys ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant.idempotency_keys FORCE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS idempotency_keys_user_policy ON tenant.idempotency_keys;
CREATE POLICY idempotency_keys_user_policy ON tenant.idempotency_keys
    FOR ALL
    USING (user_id = authn.current_user_id());

-- The sweep sees expired rows of everybody, and only inside tenant.idempotency_sweep, which alone sets
-- `app.idempotency_sweep`. PostgreSQL asks the SELECT policies too for a DELETE that has a WHERE, and the UPDATE ones for
-- FOR UPDATE, so a policy FOR DELETE alone lets such a DELETE find nothing.
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
