-- The pack for the limit of one user's records (`Limits::records`): allowances. Servers without the limit use nothing of it.
--
-- A server admits a call of a limited user if it has an allowance left for one more record of that user. It asks for some records at a
-- time. The allowances of all servers and the existing records together never exceed the limit, for any number of servers. The row of a
-- user with the nil server is an upper bound of that sum. It changes with each allowance: a record that is deleted or expires stays in it
-- until it reaches the limit, and the user's records are counted.
--
-- They are counted by an index that is led by user_id and expires, for all servers at most a twentieth of the time. Make it before you set a limit.

-- The allowances. Each user has rows of its own, as in the table of keys. `until` of the nil server is the time of the next count; of any
-- other server, the time until which its calls may make records.
CREATE TABLE IF NOT EXISTS tenant.idempotency_allowances (
    user_id uuid        NOT NULL,
    server  uuid        NOT NULL,
    records bigint      NOT NULL,
    until   timestamptz NOT NULL,
    CONSTRAINT idempotency_allowances_pk PRIMARY KEY (user_id, server)
) WITH (fillfactor = 50);

DO $policies$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_allowances';
BEGIN
    IF EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = v_table) THEN
        RETURN;
    END IF;
    ALTER TABLE tenant.idempotency_allowances ALTER COLUMN user_id SET STATISTICS 0;
    ALTER TABLE tenant.idempotency_allowances ENABLE ROW LEVEL SECURITY;
    ALTER TABLE tenant.idempotency_allowances FORCE ROW LEVEL SECURITY;
    EXECUTE format(
        'CREATE POLICY idempotency_allowances_owner_policy ON tenant.idempotency_allowances FOR ALL USING (user_id = %s)',
        tenant.idempotency_owner_set()
    );
    -- For tenant.idempotency_sweep_more.
    EXECUTE format(
        'CREATE POLICY idempotency_allowances_sweep_policy ON tenant.idempotency_allowances FOR ALL TO %s '
        'USING (until <= now() - interval ''1 hour'' AND current_setting(''app.idempotency_sight'', true) = ''sweep'') '
        'WITH CHECK (false)',
        (SELECT c.relowner::regrole FROM pg_class c WHERE c.oid = v_table)
    );
END
$policies$;

-- Deletes the allowances of users who do not call any more. Called by tenant.idempotency_sweep_rows.
CREATE OR REPLACE FUNCTION tenant.idempotency_sweep_more() RETURNS void
LANGUAGE plpgsql AS $more$
BEGIN
    DELETE FROM tenant.idempotency_allowances a WHERE a.until <= now() - interval '1 hour';
END
$more$;

-- Returns whether the table has an index by which the records of a user are counted. Called by tenant.idempotency_usage.
CREATE OR REPLACE FUNCTION tenant.idempotency_finds_users() RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $finds_users$
BEGIN
    RETURN EXISTS (
        SELECT FROM pg_index i
        JOIN pg_attribute u ON u.attrelid = i.indrelid AND u.attnum = i.indkey[0]
        JOIN pg_attribute e ON e.attrelid = i.indrelid AND e.attnum = i.indkey[1]
        WHERE i.indrelid = 'tenant.idempotency_keys'::regclass
          AND u.attname = 'user_id' AND e.attname = 'expires' AND i.indpred IS NULL AND i.indisvalid
    );
END
$finds_users$;

-- Counts the records of a user by entries of the index, which the order makes the planner take. For tenant.idempotency_usage, which calls it.
CREATE OR REPLACE FUNCTION tenant.idempotency_usage_row(p_user uuid, p_most bigint, OUT records bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET jit = off AS $usage_row$
DECLARE
    v_now CONSTANT timestamptz := clock_timestamp();
BEGIN
    SELECT count(*) INTO records
    FROM (
        SELECT 1 FROM tenant.idempotency_keys k
        WHERE k.user_id = p_user AND k.expires > v_now
        ORDER BY k.expires
        LIMIT p_most
    ) e;
END
$usage_row$;

-- usage: returns how many records a user has that have not expired, up to p_most. Runs with the caller's privileges, under row-level
-- security, as the owner in its first parameter. Called by tenant.idempotency_allow.
CREATE OR REPLACE FUNCTION tenant.idempotency_usage(p_user uuid, p_most bigint, OUT records bigint)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $usage$
DECLARE
    v_set text; -- an assignment costs less than PERFORM
BEGIN
    IF NOT tenant.idempotency_finds_users() THEN
        RAISE EXCEPTION 'the records of a user cannot be counted: no index of tenant.idempotency_keys is led by user_id and expires'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                  HINT = 'CREATE INDEX my_index ON tenant.idempotency_keys (user_id, expires)';
    END IF;
    v_set := tenant.idempotency_act_for(p_user, p_user);
    records := tenant.idempotency_usage_row(p_user, p_most);
END
$usage$;

-- allow: gives a server an allowance, for the records of this user that its calls make in the next p_seconds, in place of the one that it
-- had: a hundredth of what is left, and less the more servers have one, but at least one. 0 records if the user has as many as
-- one user may have; the next attempt may have another outcome after `wait` seconds. Runs as tenant.idempotency_usage. Called by the
-- store for users whose allowance is used up.
--
-- The row of the nil server is locked, so that one server at a time is served for each user. Reads after that see everything that others
-- have committed.
CREATE OR REPLACE FUNCTION tenant.idempotency_allow(
    p_user uuid, p_server uuid,
    p_max_records bigint,
    p_in_flight   bigint, -- calls of this server that may make a record
    p_records     bigint, -- that this server has made since its last allowance, at most
    p_seconds double precision,
    OUT records bigint, OUT wait double precision
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan AS $allow$
DECLARE
    v_none CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
    v_unknown CONSTANT bigint := 4611686018427387904; -- more than any limit
    v_set text;
    v_all record;
    v_own bigint;
    v_others record;
    v_begun timestamptz;
    v_full boolean;
BEGIN
    v_set := tenant.idempotency_act_for(p_user, p_user);
    LOOP
        SELECT a.records, a.until INTO v_all
        FROM tenant.idempotency_allowances a
        WHERE a.user_id = p_user AND a.server = v_none
        FOR UPDATE;
        EXIT WHEN FOUND;
        -- The unknown sum makes the user's records be counted.
        INSERT INTO tenant.idempotency_allowances (user_id, server, records, until)
        VALUES (p_user, v_none, v_unknown, '-infinity')
        ON CONFLICT DO NOTHING;
    END LOOP;
    SELECT a.records INTO v_own
    FROM tenant.idempotency_allowances a
    WHERE a.user_id = p_user AND a.server = p_server;
    v_all.records := v_all.records - coalesce(v_own, 0) + p_records + p_in_flight;

    v_begun := clock_timestamp();
    SELECT count(*) AS servers, coalesce(sum(a.records), 0) AS records INTO v_others
    FROM tenant.idempotency_allowances a
    WHERE a.user_id = p_user AND a.server NOT IN (v_none, p_server) AND a.until > v_begun;
    v_full := v_all.records >= p_max_records;
    IF v_full AND v_all.until <= v_begun THEN
        -- Records of servers whose time is over exist already. Those of the others may be counted twice.
        DELETE FROM tenant.idempotency_allowances a
        WHERE a.user_id = p_user AND a.server NOT IN (v_none, p_server) AND a.until <= v_begun;
        v_all.records := tenant.idempotency_usage(p_user, p_max_records) + v_others.records + p_in_flight;
        v_full := v_all.records >= p_max_records;
        v_all.until := clock_timestamp() + greatest(
            20 * (clock_timestamp() - v_begun), CASE WHEN v_full THEN interval '1 second' ELSE interval '0' END
        );
    END IF;

    records := CASE WHEN v_full THEN 0 ELSE greatest(1, (p_max_records - v_all.records) / (100 * (v_others.servers + 1))) END;
    IF records <= 1 THEN
        -- The record itself comes later in the same log, and flushes this with it.
        v_set := set_config('synchronous_commit', 'off', true);
    END IF;
    wait := greatest(0, date_part('epoch', v_all.until - clock_timestamp()));
    v_all.records := least(v_unknown, v_all.records + records);
    INSERT INTO tenant.idempotency_allowances AS a (user_id, server, records, until)
    VALUES (p_user, v_none, v_all.records, v_all.until),
           (p_user, p_server, p_in_flight + records, clock_timestamp() + make_interval(secs => p_seconds))
    ON CONFLICT (user_id, server) DO UPDATE
    SET records = excluded.records, until = excluded.until;
END
$allow$;

COMMENT ON FUNCTION tenant.idempotency_finds_users() IS 'for the role of the API';
COMMENT ON FUNCTION tenant.idempotency_usage(uuid, bigint) IS 'for the role of the API';
COMMENT ON FUNCTION tenant.idempotency_usage_row(uuid, bigint) IS 'for the role of the API';
COMMENT ON FUNCTION tenant.idempotency_allow(uuid, uuid, bigint, bigint, bigint, double precision)
    IS 'for the role of the API';
