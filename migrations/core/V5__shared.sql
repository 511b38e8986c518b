-- Batched statements for the common case. Everything else falls back to the single statement, which decides.
-- tenant.idempotency_complete_many has a column for each resource type: tenant.idempotency_write_statements makes it.
--
-- Each row is read and written as its own owner: the setting `idempotency.owner` is changed from row to row. That is a
-- volatile function in a sub-select that is not pulled up (OFFSET 0), and what reads the table needs its result: the executor
-- evaluates the setting of a row, and then looks the row up. If a plan did it in another order, row-level security would hide the
-- rows, and nothing would be found. A row is found by the index of keys, and changed by its ctid, where all conditions are checked
-- again. The rows of a statement are in the order of owners and keys, so that two statements that reserve, or two that complete, do not wait
-- for each other. One that completes what another reserves anew may. A statement waits at most 50 ms for another transaction, and then
-- fails with 55P03 and changes nothing: each of its calls goes alone. A constraint that one row violates fails it for all, too. An AFTER
-- trigger of the application runs at the end of the statement, with the settings of the last row.
--
-- The planner takes the condition on `owner_set` for one that hardly any row meets. It expects one row, whatever number there
-- is: so it goes from each to its row in the table, and does not plan anew for each number. LIMIT 1 changes nothing, but without it the
-- planner expects a row for each partition, if there are any, and may read a small table first.

-- Makes the rest of a transaction plan its statements once, with look-ups by index whatever the statistics are, wait only
-- briefly for locks, and use PostgreSQL's own names. Sets the nil user only because authn.current_user_id() of some applications
-- raises an error if no user is set, and the planner calls it. Inlined. Called by tenant.idempotency_write_many.
CREATE OR REPLACE FUNCTION tenant.idempotency_act_for_many() RETURNS text
LANGUAGE sql VOLATILE
RETURN set_config('search_path', 'pg_catalog, pg_temp', true)
    || set_config('lock_timeout', '50ms', true)
    || set_config('plan_cache_mode', 'force_generic_plan', true)
    || set_config('enable_seqscan', 'off', true)
    || set_config('enable_hashjoin', 'off', true)
    || set_config('enable_mergejoin', 'off', true)
    || set_config('app.current_user_id', '00000000-0000-0000-0000-000000000000', true);

-- Returns the settings of one of several calls, from those of all in turn, which have equal names; NULL if there are none. Called by
-- tenant.idempotency_look and tenant.idempotency_reserve_many.
CREATE OR REPLACE FUNCTION tenant.idempotency_settings_of(p_settings text[], p_item bigint, p_items integer) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_settings IS NOT NULL THEN
    p_settings[(p_item - 1)::integer * (cardinality(p_settings) / p_items) + 1 : p_item::integer * (cardinality(p_settings) / p_items)]
END;

-- Makes the planner expect that a row that is read costs more than a look into the index. In the statement of tenant.idempotency_look, which
-- never calls it.
CREATE OR REPLACE FUNCTION tenant.idempotency_expensive(p_key uuid) RETURNS boolean
LANGUAGE plpgsql COST 10000 AS $expensive$
BEGIN
    RETURN false;
END
$expensive$;

-- look: returns what there is of several keys: their states (tenant.idempotency_state; 'absent' without a row), what is recorded, and
-- the status of their resources. `item` counts the keys from 1; `token` is the one that the key was asked for with. Changes nothing.
-- Called by the store for calls that probably repeat others, and for those whose serializable transactions hold their keys' locks, alone or
-- together.
--
-- Neither a procedure nor PL/pgSQL: PostgreSQL inlines it into the client's statement, which it plans once if that is prepared.
-- The planner does so without a user: it fails if a policy of the application calls a function that needs one. A reservation of
-- the Go interceptor is 'abandoned'. On a standby, no row has a state: the claim finds out.
--
-- A function cannot tell whether a transaction was left open on the connection, in which it would read stale rows and leave its settings
-- behind. `age` is that of its transaction in seconds, and little more than the time in which it was planned: if it is more, the client
-- checks before it believes the answer. So each key has a row. One that is younger than 50 ms is believed: what it reads was true so
-- long ago. The last row puts back the owner and the user that were found.
CREATE OR REPLACE FUNCTION tenant.idempotency_look(
    p_users uuid[], p_keys uuid[], p_tokens uuid[],
    p_resource_types text[], -- the types of the resources whose status to look up; NULL elements for none
    p_app_users      uuid[], -- the application's users; NULL elements for none
    p_settings       text[]  -- the application's settings of all keys in turn, with equal names (tenant.idempotency_set); NULL for none
) RETURNS TABLE (
    item bigint, token uuid, state text, recorded_procedure text, recorded_hash bytea, recorded_arrival bytea, response bytea,
    metadata bytea, error bytea, resource text, status text, status_error text, lease_left_ms bigint, expires_in_ms bigint,
    age double precision
)
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
    SELECT q.item, q.token,
           CASE WHEN current_setting('app.current_user_id', true) = q.app_user_seen
                     AND current_setting('transaction_read_only') = 'off'
                THEN coalesce(r.state, 'absent')
           END,
           r.procedure, r.request_hash, r.arrival_hash, r.response_bytes, r.response_metadata, r.error_bytes,
           r.resource,
           CASE WHEN r.state IN ('completed', 'not_stored') AND r.resource IS NOT NULL AND q.resource_type IS NOT NULL
                THEN tenant.idempotency_resource_status(q.resource_type, r.resource)
           END,
           NULL::text, r.lease_left_ms, r.expires_in_ms,
           CASE WHEN q.item < cardinality(p_keys)
                     OR set_config('idempotency.owner', q.owner_found, true) IS NOT NULL
                        AND set_config('app.current_user_id', q.app_user_found, true) IS NOT NULL
                THEN date_part('epoch', statement_timestamp() - now())
           END
    FROM (
        SELECT u.*,
               (SELECT coalesce(current_setting('idempotency.owner', true), '')) AS owner_found,
               (SELECT coalesce(current_setting('app.current_user_id', true), '')) AS app_user_found,
               set_config('idempotency.owner', u.owner::text, true) AS owner_set,
               set_config('app.current_user_id', coalesce(u.app_user::text, ''), true) AS app_user_set,
               CASE WHEN p_settings IS NOT NULL THEN
                   tenant.idempotency_set(tenant.idempotency_settings_of(p_settings, u.item, cardinality(p_keys)))
               END AS settings_set,
               -- The application's settings may have another user.
               current_setting('app.current_user_id', true) AS app_user_seen,
               clock_timestamp() AS now,
               CASE WHEN u.item = 1 THEN
                   set_config('search_path', 'pg_catalog, pg_temp', true) || set_config('lock_timeout', '250ms', true)
               END AS names_set
        FROM unnest(p_users, p_keys, p_tokens, p_resource_types, p_app_users)
             WITH ORDINALITY AS u (owner, key, token, resource_type, app_user, item)
        OFFSET 0
    ) q
    LEFT JOIN LATERAL (
        SELECT tenant.idempotency_state(k, q.token, interval '0', q.now) AS state,
               k.procedure, k.request_hash, k.arrival_hash, k.response_bytes, k.response_metadata, k.error_bytes,
               tenant.idempotency_resource_id(k) AS resource,
               tenant.idempotency_milliseconds_until(k.lease_expires, q.now) AS lease_left_ms,
               tenant.idempotency_milliseconds_until(k.expires, q.now) AS expires_in_ms
        FROM tenant.idempotency_keys k
        WHERE k.idempotency_key = q.key
          AND k.user_id = q.owner
          AND (q.app_user_set IS NOT NULL OR tenant.idempotency_expensive(k.token))
        OFFSET 0
    ) r ON true
    WHERE q.owner_set = q.owner::text;
END;

-- reserve: absent -> reserved, for several keys: a part of tenant.idempotency_write_many. Returns the tokens of those that were
-- absent, 16 bytes each, NULL if there are none. A key that has a row, also an expired one, is left as it is, and after p_until every key.
CREATE OR REPLACE FUNCTION tenant.idempotency_reserve_many(
    p_users uuid[], p_keys uuid[], p_tokens uuid[], p_procedures text[], p_request_hashes bytea[],
    p_arrival_hashes   bytea[], -- as in tenant.idempotency_claim
    p_leases           double precision[], -- seconds
    p_retentions       double precision[], -- seconds
    p_app_users        uuid[], -- the application's users; NULL elements for none
    p_settings         text[], -- as in tenant.idempotency_look
    p_until            double precision, -- as in tenant.idempotency_claim
    OUT reserved bytea
)
LANGUAGE plpgsql AS $reserve_many$
DECLARE
    v_now CONSTANT pg_catalog.timestamptz := pg_catalog.clock_timestamp();
    v_until CONSTANT pg_catalog.timestamptz := pg_catalog.to_timestamp(p_until);
BEGIN
    WITH made AS (
        INSERT INTO tenant.idempotency_keys AS k
            (idempotency_key, user_id, procedure, request_hash, arrival_hash, token, lease_expires, expires)
        SELECT q.key, q.owner, q.procedure, q.request_hash, q.arrival_hash, q.token,
               v_now + make_interval(secs => q.lease),
               v_now + make_interval(secs => greatest(q.lease, q.retention))
        FROM (
            SELECT u.*,
                   set_config('idempotency.owner', u.owner::text, true) AS owner_set,
                   set_config('app.current_user_id', coalesce(u.app_user::text, ''), true) AS app_user_set,
                   CASE WHEN p_settings IS NOT NULL THEN
                       tenant.idempotency_set(tenant.idempotency_settings_of(p_settings, u.item, cardinality(p_keys)))
                   END AS settings_set
            FROM (
                SELECT u.*
                FROM unnest(p_users, p_keys, p_tokens, p_procedures, p_request_hashes, p_arrival_hashes, p_leases, p_retentions,
                            p_app_users)
                     WITH ORDINALITY AS u (owner, key, token, procedure, request_hash, arrival_hash, lease, retention, app_user, item)
                ORDER BY u.owner, u.key
            ) u
            OFFSET 0
        ) q
        WHERE q.owner_set IS NOT NULL AND q.app_user_set IS NOT NULL AND clock_timestamp() <= v_until
        ON CONFLICT (idempotency_key, user_id) DO NOTHING
        RETURNING k.token
    )
    SELECT string_agg(uuid_send(made.token), '') INTO reserved FROM made;
END
$reserve_many$;

-- reserve, and complete, for several keys each: the two writes of nearly every call in reserved mode. Returns the tokens of those that were
-- reserved and of those that were completed, 16 bytes each, NULL if there are none. Called by the store when calls come together.
--
-- First those that have settings of the layer alone: no call's settings of the application are left for another's row.
CREATE OR REPLACE PROCEDURE tenant.idempotency_write_many(
    p_users            uuid[], -- as in tenant.idempotency_reserve_many
    p_keys uuid[], p_tokens uuid[], p_procedures text[], p_request_hashes bytea[], p_arrival_hashes bytea[],
    p_leases double precision[], p_retentions double precision[],
    p_effects_are_here boolean, -- whether the effects of all handlers are committed in this server and nowhere else
    p_app_users uuid[], p_settings text[], p_until double precision,
    p_done_users       uuid[], -- as in tenant.idempotency_complete_many
    p_done_keys uuid[], p_done_tokens uuid[], p_responses bytea[], p_not_stored boolean[], p_errors bytea[], p_metadata bytea[],
    p_done_retentions double precision[], p_resource_columns text[], p_resources text[],
    OUT reserved bytea, OUT completed bytea, OUT clock double precision
)
LANGUAGE plpgsql AS $write_many$
DECLARE
    v_set pg_catalog.text; -- an assignment costs less than PERFORM
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_for_many();
    clock := date_part('epoch', clock_timestamp());
    IF cardinality(p_done_keys) > 0 THEN
        completed := tenant.idempotency_complete_many(
            p_done_users, p_done_keys, p_done_tokens, p_responses, p_not_stored, p_errors, p_metadata, p_done_retentions,
            p_resource_columns, p_resources
        );
    ELSIF p_effects_are_here THEN
        v_set := set_config('synchronous_commit', 'off', true);
    END IF;
    IF cardinality(p_keys) > 0 THEN
        reserved := tenant.idempotency_reserve_many(
            p_users, p_keys, p_tokens, p_procedures, p_request_hashes, p_arrival_hashes, p_leases, p_retentions, p_app_users, p_settings,
            p_until
        );
    END IF;
END
$write_many$;
