-- The rules that all statements share: the meaning of a row, the owner that a transaction acts as, and the lock of a key. Each rule stands
-- here once.
--
-- The database's clock decides leases and expiry. A decision takes it as its last argument: a statement that may run on a node of a cluster
-- has to read the clock before it changes a row.

-- Two functions that are replaced later, and are therefore made only once.
DO $hooks$
BEGIN
    -- Returns the id of the created resource of a row, as a text: ids may be UUIDs, integers or texts.
    -- tenant.idempotency_register_resource replaces it.
    IF to_regprocedure('tenant.idempotency_resource_id(record)') IS NULL THEN
        CREATE FUNCTION tenant.idempotency_resource_id(k record) RETURNS text
        LANGUAGE plpgsql STABLE PARALLEL SAFE AS $id$ BEGIN RETURN NULL; END $id$;
    END IF;

    -- Returns the newest outbox status of a resource: pending, retrying, completed or failed; NULL if it is not known.
    -- An application with an outbox replaces this function with its own look-up. It runs with the search_path
    -- `pg_catalog, pg_temp`. The id is a text: `p_resource::uuid` is that of a resource whose table has UUIDs.
    IF to_regprocedure('tenant.idempotency_resource_status(text, text)') IS NULL THEN
        CREATE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text) RETURNS text
        LANGUAGE sql STABLE PARALLEL SAFE
        RETURN NULL::text;
    END IF;
END
$hooks$;

-- Returns the state of a row, for the call with this token:
--
--   expired     treated as absent
--   completed   has a response
--   not_stored  completed, but the response was too large to store, or was erased
--   failed      has the error that ended the operation
--   unknown     the call ended, and it is not known whether it took effect
--   acquired    reserved with this token, which has not given its lease back
--   taken_over  the same, after the lease of another token ended without an outcome
--   reserved    reserved with another token, whose lease has not ended
--   abandoned   reserved with another token, whose lease ended without an outcome; or with this one, which gave its lease back
--
-- A claim may also be `late`: it has changed nothing, because its time was over.
--
-- A reservation of the Go interceptor has no lease. `p_foreign_lease` is the one that the caller gives it, counted from its
-- creation; with NULL it is reserved until it expires. Takes any record with the columns of the table, so that it does not depend on the
-- table's type. Called by all that read a row.
CREATE OR REPLACE FUNCTION tenant.idempotency_state(
    k record, p_token uuid, p_foreign_lease interval, p_now timestamptz
) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $state$
BEGIN
    RETURN CASE
        WHEN k.expires <= p_now THEN 'expired'
        WHEN k.response_not_stored THEN 'not_stored'
        WHEN k.response_bytes IS NOT NULL THEN 'completed'
        WHEN k.error_bytes IS NOT NULL THEN 'failed'
        WHEN k.token = p_token AND k.lease_expires > 'epoch' THEN CASE k.attempts WHEN 1 THEN 'acquired' ELSE 'taken_over' END
        WHEN coalesce(k.lease_expires, k.created + p_foreign_lease, k.expires) > p_now THEN 'reserved'
        WHEN k.outcome_unknown THEN 'unknown'
        ELSE 'abandoned'
    END;
END
$state$;

-- Returns whether a call may take over a reservation of the same request that has no outcome and has not expired: its lease has ended, and
-- the policy of the procedure allows it. It takes columns, and is immutable, because a statement that changes a row may have nothing else of
-- them on some kinds of tables. Called by the claim, the beginning and the commit of a transaction.
CREATE OR REPLACE FUNCTION tenant.idempotency_may_take_over(
    p_lease_expires  timestamptz, -- of the row; NULL for a reservation of the Go interceptor
    p_created        timestamptz, -- of the row
    p_unknown        boolean, -- of the row: whether it is not known that the call took no effect
    p_foreign_before timestamptz, -- one of those that was made until this time has ended; NULL for never
    p_on_lease_ended text, -- 'rerun', 'reconcile' or 'refuse'
    p_on_foreign     text, -- the same for a reservation without a lease; or 'in_progress'
    p_now timestamptz
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN p_lease_expires IS NULL
    THEN p_on_foreign IN ('rerun', 'reconcile') AND (NOT p_unknown OR p_on_foreign = 'reconcile')
         AND p_created <= p_foreign_before
    ELSE p_on_lease_ended IN ('rerun', 'reconcile') AND (NOT p_unknown OR p_on_lease_ended = 'reconcile')
         AND p_lease_expires <= p_now
END;

-- Returns whether two requests are the same: whether any hash of the one equals any of the other. The first two are of a
-- row. Called where a call takes a row over.
CREATE OR REPLACE FUNCTION tenant.idempotency_same_request(
    p_recorded_hash bytea, p_recorded_arrival bytea, p_request_hash bytea, p_arrival_hash bytea
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY[p_recorded_hash, p_recorded_arrival] && ARRAY[p_request_hash, p_arrival_hash]; -- NULL equals nothing

-- Returns the time until p_time in whole milliseconds, limited to a hundred years; negative if p_time is in the past. Called by all that
-- tell a call how long a record stays.
CREATE OR REPLACE FUNCTION tenant.idempotency_milliseconds_until(p_time timestamptz, p_now timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
RETURN floor(1000 * greatest(-3155760000, least(3155760000, date_part('epoch', p_time) - date_part('epoch', p_now))));

-- Returns the status of a resource for a replay. An error does not fail the replay: the SQLSTATE is returned in
-- `status_error`. Waits at most 250 ms for a locked outbox. Its plans are the application's. Called by all that find a completed row.
CREATE OR REPLACE FUNCTION tenant.idempotency_soft_status(
    p_resource_type text, p_resource text, OUT status text, OUT status_error text
)
LANGUAGE plpgsql
SET lock_timeout = '250ms'
SET plan_cache_mode = auto AS $soft$
BEGIN
    status := tenant.idempotency_resource_status(p_resource_type, p_resource);
EXCEPTION WHEN query_canceled OR OTHERS THEN
    status := NULL;
    status_error := SQLSTATE;
END
$soft$;

-- Sets the application's settings for this transaction: names and values in turn. Returns how many these are. (An SQL function with a
-- sub-select would not be inlined, and be planned anew in each transaction.) Called by all that run something of the application's.
CREATE OR REPLACE FUNCTION tenant.idempotency_set(p_settings text[]) RETURNS bigint
LANGUAGE plpgsql AS $set$
DECLARE
    v_set pg_catalog.text; -- an assignment costs less than PERFORM
BEGIN
    FOR v_item IN 1..pg_catalog.cardinality(p_settings) BY 2 LOOP
        v_set := pg_catalog.set_config(p_settings[v_item], p_settings[v_item OPERATOR(pg_catalog.+) 1], true);
    END LOOP;
    RETURN pg_catalog.cardinality(p_settings);
END
$set$;

-- Sets the owner whose records the rest of a transaction sees, and the application's user (NULL for none). Inlined. Called by
-- tenant.idempotency_act_as, and by functions that have a search_path of their own.
CREATE OR REPLACE FUNCTION tenant.idempotency_act_for(p_owner uuid, p_app_user uuid) RETURNS text
LANGUAGE sql VOLATILE
RETURN set_config('idempotency.owner', coalesce(p_owner::text, ''), true)
    || set_config('app.current_user_id', coalesce(p_app_user::text, ''), true);

-- The same, with PostgreSQL's own names, and with plans that are made once: a record is found by its key and user, whichever these are,
-- and to plan a statement on a large table anew takes several times as long as to run it. Inlined. Called by each procedure first.
CREATE OR REPLACE FUNCTION tenant.idempotency_act_as(p_owner uuid, p_app_user uuid) RETURNS text
LANGUAGE sql VOLATILE
RETURN set_config('search_path', 'pg_catalog, pg_temp', true)
    || set_config('plan_cache_mode', 'force_generic_plan', true)
    || tenant.idempotency_act_for(p_owner, p_app_user);

-- The same, for a procedure that changes one reservation. It waits only briefly for the lock of the row, and the store repeats it: otherwise
-- each attempt behind a slow COMMIT of the same key would keep a connection of the pool. Inlined. Called by extend, complete, release and
-- abandon first.
CREATE OR REPLACE FUNCTION tenant.idempotency_hold_as(p_owner uuid) RETURNS text
LANGUAGE sql VOLATILE
RETURN set_config('lock_timeout', '50ms', true) || tenant.idempotency_act_as(p_owner, p_owner);

-- Fails as a write does on a standby, and in any other transaction that is read-only. Each function that gives an answer about a key
-- calls it there. A standby may lack the latest changes of its primary. It may also have changes that a failover takes back: as a former
-- primary that is not rewound yet, or as a standby that was ahead of the synchronous one.
CREATE OR REPLACE FUNCTION tenant.idempotency_needs_primary() RETURNS text
LANGUAGE plpgsql AS $needs_primary$
BEGIN
    RAISE EXCEPTION 'cannot decide on an idempotency key in a read-only transaction'
        USING ERRCODE = 'read_only_sql_transaction',
              HINT = 'The server is a standby, or the role has default_transaction_read_only. Connect to the primary.';
END
$needs_primary$;

-- Gives a transaction a sight, 'sweep', 'recovery' or 'copy': the rows of all owners that the policy of that name shows to the table's owner.
-- The owner's policy shows none then: it has the nil owner. (And the nil user, because authn.current_user_id() of some applications needs
-- one.) With '' and the owner and user from before, it takes the sight back. Called by functions that run as the table's owner.
CREATE OR REPLACE FUNCTION tenant.idempotency_see(
    p_sight text, p_owner text DEFAULT '00000000-0000-0000-0000-000000000000',
    p_user text DEFAULT '00000000-0000-0000-0000-000000000000'
) RETURNS void
LANGUAGE plpgsql AS $see$
BEGIN
    PERFORM tenant.idempotency_set(ARRAY['app.idempotency_sight', p_sight, 'idempotency.owner', p_owner, 'app.current_user_id', p_user]);
END
$see$;

-- Fails if the role with whose rights the function runs does not see the rows of all owners, because the policy is for another role.
-- Without this check the function would find no rows, and report no error. Called by the sweep, the recovery and the operators' list.
CREATE OR REPLACE FUNCTION tenant.idempotency_needs_sight(p_policy name) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $needs_sight$
DECLARE
    v_table CONSTANT regclass := 'tenant.idempotency_keys';
BEGIN
    IF EXISTS (
        SELECT FROM (
            SELECT v_table::oid AS id
            UNION ALL
            SELECT i.inhrelid FROM pg_inherits i
            WHERE i.inhparent = v_table AND p_policy <> 'idempotency_keys_recovery_policy'
        ) t
        WHERE row_security_active(t.id)
          AND NOT EXISTS (
              SELECT FROM pg_policy p CROSS JOIN unnest(p.polroles) AS r (id)
              WHERE p.polrelid = t.id AND p.polname = p_policy AND (r.id = 0 OR pg_has_role(r.id, 'USAGE'))
          )
    ) THEN
        RAISE EXCEPTION 'the policy % is not for the role %, whose rights this function has', p_policy, current_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = 'The owner has changed. Run migrations::run, or SELECT tenant.idempotency_adapt(), as the new one.';
    END IF;
END
$needs_sight$;

-- Returns a secret of this database, which keeps clients from choosing keys by the numbers of their locks. Made once: old
-- and new servers have to agree on the numbers. Called by tenant.idempotency_lock_id.
DO $seed$
BEGIN
    IF to_regprocedure('tenant.idempotency_seed()') IS NULL THEN
        EXECUTE format(
            'CREATE FUNCTION tenant.idempotency_seed() RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN decode(%L, ''hex'')',
            encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'hex')
        );
    END IF;
END
$seed$;

-- Returns the number of a key's advisory lock. The holder of the lock has the only open transaction of the key. Called by all of
-- transactional mode.
CREATE OR REPLACE FUNCTION tenant.idempotency_lock_id(p_user uuid, p_key uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN hashtextextended(
    (encode(tenant.idempotency_seed(), 'hex') || p_user::text || p_key::text) COLLATE "C", 0
);
