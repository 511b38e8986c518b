-- Reserved mode: claim, extend, complete, release and abandon. Each is one procedure, and so one statement for the client: one network
-- round trip, no session state, and nothing left open when the client disconnects. The procedures run with the caller's privileges, under
-- row-level security, as the owner in their first parameter: p_user is the value of the column user_id. Those that read nothing but
-- the table also set it as `app.current_user_id`, which other policies of an adopted table may ask for; in the others, that is the
-- application's user.
--
-- A procedure is a transaction of its own. Each begins with COMMIT, which ends nothing, but fails inside of a transaction
-- block (SQLSTATE 2D000): a reservation made in a transaction that was left open on the connection would be lost
-- with it. (A function cannot tell: in the extended protocol transaction_timestamp() and statement_timestamp() differ even
-- for the only statement of a transaction. BEGIN, a simple query, is told from them.) A procedure that commits cannot have a SET clause, so
-- each sets its search_path next, for its transaction (tenant.idempotency_act_as, or idempotency_hold_as); what comes before and the types
-- of its variables are qualified.
--
-- The work on the row is in a function, *_row, which could run on another node than its procedure. Every transition is one guarded
-- statement. A decision between two is made on a locked row: between two statements that decide by themselves, a row may appear that
-- neither finds as it should.

-- Fails if a claim has written after its time, because it had to wait for another transaction. Called by tenant.idempotency_claim_row.
CREATE OR REPLACE FUNCTION tenant.idempotency_in_time(p_until timestamptz) RETURNS text
LANGUAGE plpgsql AS $in_time$
BEGIN
    IF clock_timestamp() > p_until THEN
        RAISE EXCEPTION 'the claim of the idempotency key came too late' USING ERRCODE = 'serialization_failure';
    END IF;
    RETURN NULL;
END
$in_time$;

-- Reserves a key, takes it over, or returns what is recorded: tenant.idempotency_claim, which calls it.
--
-- Looks for the row first, so that a retry writes nothing. Each statement sees everything committed before the statement began (READ
-- COMMITTED): if a row appears between two statements, the next one finds it; if it disappears, the loop starts again.
CREATE OR REPLACE FUNCTION tenant.idempotency_claim_row(
    p_user uuid, p_key uuid, p_token uuid, p_procedure text, p_request_hash bytea, p_arrival_hash bytea, p_lease double precision,
    p_retention double precision, p_on_lease_ended text, p_on_foreign text, p_until double precision,
    OUT state text, OUT recorded_procedure text, OUT recorded_hash bytea, OUT recorded_arrival bytea, OUT response bytea,
    OUT metadata bytea, OUT error bytea, OUT resource text, OUT lease_left_ms bigint, OUT expires_in_ms bigint
)
LANGUAGE plpgsql AS $claim_row$
DECLARE
    v_until CONSTANT timestamptz := to_timestamp(p_until);
    v_lease CONSTANT interval := make_interval(secs => p_lease);
    v_foreign_lease CONSTANT interval := CASE WHEN p_on_foreign <> 'in_progress' THEN v_lease END;
    v_set text; -- an assignment costs less than PERFORM
    v_now timestamptz;
    v_lease_expires timestamptz;
    v_expires timestamptz;
    v_foreign_before timestamptz;
    k record;
BEGIN
    IF current_setting('transaction_read_only') = 'on' THEN
        v_set := tenant.idempotency_needs_primary();
    END IF;
    FOR v_round IN 1..16 LOOP
        SELECT x.* INTO k FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user;
        v_now := clock_timestamp();
        v_lease_expires := v_now + v_lease;
        v_expires := v_now + make_interval(secs => greatest(p_lease, p_retention));
        IF k.id IS NULL THEN
            IF v_now > v_until THEN
                state := 'late';
                RETURN;
            END IF;
            INSERT INTO tenant.idempotency_keys
                (idempotency_key, user_id, procedure, request_hash, arrival_hash, token, lease_expires, expires)
            VALUES (p_key, p_user, p_procedure, p_request_hash, p_arrival_hash, p_token, v_lease_expires, v_expires)
            ON CONFLICT (idempotency_key, user_id) DO NOTHING;
            CONTINUE WHEN NOT FOUND;
            v_set := tenant.idempotency_in_time(v_until);
            state := 'acquired';
            RETURN;
        END IF;

        state := tenant.idempotency_state(k, p_token, v_foreign_lease, v_now);
        IF state IN ('acquired', 'taken_over') THEN
            -- The reservation is that of an earlier attempt, which may not have waited for a synchronous standby. This attempt does,
            -- because it writes as well.
            UPDATE tenant.idempotency_keys x
            SET lease_expires = v_lease_expires,
                expires       = greatest(x.expires, v_lease_expires)
            WHERE x.idempotency_key = p_key
              AND x.user_id = p_user
              AND x.token = p_token
              AND x.response_bytes IS NULL
              AND x.error_bytes IS NULL
              AND x.lease_expires > 'epoch';
            CONTINUE WHEN NOT FOUND;
        ELSIF state = 'expired' THEN
            DELETE FROM tenant.idempotency_keys x
            WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.id = k.id AND x.expires <= v_now;
            CONTINUE;
        ELSIF state IN ('abandoned', 'unknown')
              -- A token that gave its lease back is that of a call that has ended: an attempt of its claim that arrives late gets nothing.
              AND k.token IS DISTINCT FROM p_token
              AND k.procedure = p_procedure
              AND tenant.idempotency_same_request(k.request_hash, k.arrival_hash, p_request_hash, p_arrival_hash)
              AND tenant.idempotency_may_take_over(
                  k.lease_expires, k.created, k.outcome_unknown, v_now - v_foreign_lease, p_on_lease_ended, p_on_foreign, v_now) THEN
            IF v_now > v_until THEN
                state := 'late';
                RETURN;
            END IF;
            -- The request of a row does not change.
            v_foreign_before := v_now - v_foreign_lease;
            UPDATE tenant.idempotency_keys x
            SET token         = p_token,
                lease_expires = v_lease_expires,
                expires       = v_expires,
                attempts      = x.attempts + 1
            WHERE x.idempotency_key = p_key
              AND x.user_id = p_user
              AND x.id = k.id
              AND x.token IS DISTINCT FROM p_token
              AND x.response_bytes IS NULL
              AND x.error_bytes IS NULL
              AND x.expires > v_now
              AND tenant.idempotency_may_take_over(
                  x.lease_expires, x.created, x.outcome_unknown, v_foreign_before, p_on_lease_ended, p_on_foreign, v_now);
            CONTINUE WHEN NOT FOUND;
            v_set := tenant.idempotency_in_time(v_until);
            state := 'taken_over';
        END IF;

        recorded_procedure := k.procedure;
        recorded_hash := k.request_hash;
        recorded_arrival := k.arrival_hash;
        response := k.response_bytes;
        metadata := k.response_metadata;
        error := k.error_bytes;
        resource := tenant.idempotency_resource_id(k);
        lease_left_ms := tenant.idempotency_milliseconds_until(coalesce(k.lease_expires, k.created + v_foreign_lease, k.expires), v_now);
        expires_in_ms := tenant.idempotency_milliseconds_until(k.expires, v_now);
        RETURN;
    END LOOP;

    RAISE EXCEPTION 'the idempotency key changed during each of 16 attempts to claim it; retry the call'
        USING ERRCODE = 'serialization_failure';
END
$claim_row$;

-- claim: absent -> reserved. Returns 'acquired' or 'taken_over', or the state of the existing row (tenant.idempotency_state).
--
-- For any state except `acquired` and `taken_over`, the caller first compares `recorded_procedure`, `recorded_hash` and
-- `recorded_arrival` with its own. A takeover leaves them as they are.
--
-- An attempt to claim a key may arrive after its call has given the attempt up, has claimed the key with a further attempt, and has
-- released it: the reservation would have no holder. So each attempt has a time, p_until, after which it changes nothing. It is in seconds
-- of this clock, which the client reads off earlier answers (`clock`).
--
-- If the handler's effect is in this server, the reservation need not be on disk before the handler runs: the effect's
-- COMMIT comes later in the same log and flushes the reservation with it. If a crash loses a takeover, the earlier
-- reservation remains, with its ended lease. Called by the store for each call in reserved mode that does not share a statement.
CREATE OR REPLACE PROCEDURE tenant.idempotency_claim(
    p_user uuid, p_key uuid, p_token uuid, p_procedure text, p_request_hash bytea,
    p_arrival_hash   bytea, -- of the request as it arrived; NULL if it is p_request_hash
    p_lease          double precision, -- seconds
    p_retention      double precision, -- seconds
    p_on_lease_ended text, -- for the same request without an outcome: 'rerun' and 'reconcile' take over, 'refuse' does not
    p_on_foreign     text, -- for a reservation without a lease: 'in_progress' until it expires; 'rerun' and 'reconcile' give
                           -- it the lease p_lease, and then take over
    p_resource_type  text, -- the type of the resource whose status a replay reports; NULL for none
    p_effect_is_here boolean, -- whether the handler's effect is committed in this server and nowhere else
    p_app_user       uuid, -- the application's user, for the look-up of the status; NULL for none
    p_settings       text[], -- the application's settings, for the same (tenant.idempotency_set); NULL for none
    p_until          double precision, -- the time after which this claim reserves nothing, in seconds since 1970
    OUT state text, OUT recorded_procedure text, OUT recorded_hash bytea, OUT recorded_arrival bytea, OUT response bytea,
    OUT metadata bytea, OUT error bytea, OUT resource text, OUT status text, OUT status_error text, OUT lease_left_ms bigint,
    OUT expires_in_ms bigint, OUT clock double precision
)
LANGUAGE plpgsql AS $claim$
DECLARE
    v_set pg_catalog.text;
    v_found pg_catalog.record;
    v_status pg_catalog.record;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_act_as(p_user, p_app_user);
    IF p_settings IS NOT NULL THEN
        v_set := tenant.idempotency_set(p_settings);
    END IF;
    IF p_effect_is_here THEN
        v_set := set_config('synchronous_commit', 'off', true);
    END IF;
    clock := date_part('epoch', clock_timestamp());
    v_found := tenant.idempotency_claim_row(
        p_user, p_key, p_token, p_procedure, p_request_hash, p_arrival_hash, p_lease, p_retention, p_on_lease_ended, p_on_foreign, p_until
    );
    state := v_found.state;
    IF state = 'acquired' THEN
        RETURN;
    END IF;
    recorded_procedure := v_found.recorded_procedure;
    recorded_hash := v_found.recorded_hash;
    recorded_arrival := v_found.recorded_arrival;
    response := v_found.response;
    metadata := v_found.metadata;
    error := v_found.error;
    resource := v_found.resource;
    lease_left_ms := v_found.lease_left_ms;
    expires_in_ms := v_found.expires_in_ms;
    IF state IN ('completed', 'not_stored') AND resource IS NOT NULL AND p_resource_type IS NOT NULL THEN
        v_status := tenant.idempotency_soft_status(p_resource_type, resource);
        status := v_status.status;
        status_error := v_status.status_error;
    END IF;
END
$claim$;

-- Called by tenant.idempotency_extend.
CREATE OR REPLACE FUNCTION tenant.idempotency_extend_row(
    p_user uuid, p_key uuid, p_token uuid, p_lease double precision, OUT extended boolean
)
LANGUAGE plpgsql AS $extend_row$
DECLARE
    v_until CONSTANT timestamptz := clock_timestamp() + make_interval(secs => p_lease);
BEGIN
    UPDATE tenant.idempotency_keys x
    SET lease_expires = v_until,
        expires       = greatest(x.expires, v_until)
    WHERE x.idempotency_key = p_key
      AND x.user_id = p_user
      AND x.token = p_token
      AND x.response_bytes IS NULL
      AND x.error_bytes IS NULL
      AND x.lease_expires > 'epoch';
    extended := FOUND;
END
$extend_row$;

-- extend: renews the lease of the reservation with this token. Returns whether there was one. An abandoned reservation
-- does not count, because its lease cannot be renewed. Called by the store for each lease that is renewed.
CREATE OR REPLACE PROCEDURE tenant.idempotency_extend(
    p_user uuid, p_key uuid, p_token uuid, p_lease double precision, -- seconds
    OUT extended boolean
)
LANGUAGE plpgsql AS $extend$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_hold_as(p_user);
    extended := tenant.idempotency_extend_row(p_user, p_key, p_token, p_lease);
END
$extend$;

-- complete: reserved -> completed, or reserved -> failed for a final error. Only for the reservation with this token.
-- Returns 'completed', 'already_completed' (with this token; nothing changed) or 'fenced' (this token does not hold
-- the reservation, or no longer does). Called by the store for each outcome in reserved mode that does not share a statement. Its
-- tenant.idempotency_complete_row has a column for each resource type: tenant.idempotency_write_statements makes it.
CREATE OR REPLACE PROCEDURE tenant.idempotency_complete(
    p_user uuid, p_key uuid, p_token uuid, p_response bytea, p_not_stored boolean,
    p_error           bytea, -- instead of a response
    p_metadata        bytea, -- with a response; NULL for none
    p_retention       double precision, -- seconds
    p_resource_column text, -- NULL for none
    p_resource text,
    OUT outcome text
)
LANGUAGE plpgsql AS $complete$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_hold_as(p_user);
    outcome := tenant.idempotency_complete_row(
        p_user, p_key, p_token, p_response, p_not_stored, p_error, p_metadata, p_retention, p_resource_column, p_resource
    );
END
$complete$;

-- Called by tenant.idempotency_release.
CREATE OR REPLACE FUNCTION tenant.idempotency_release_row(p_user uuid, p_key uuid, p_token uuid, OUT released boolean)
LANGUAGE plpgsql AS $release_row$
DECLARE
    k record;
BEGIN
    SELECT x.attempts, x.outcome_unknown INTO k
    FROM tenant.idempotency_keys x
    WHERE x.idempotency_key = p_key
      AND x.user_id = p_user
      AND x.token = p_token
      AND x.response_bytes IS NULL
      AND x.error_bytes IS NULL
    FOR UPDATE;
    released := FOUND;
    IF k.attempts = 1 AND NOT k.outcome_unknown THEN
        DELETE FROM tenant.idempotency_keys x WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.token = p_token;
    ELSIF released THEN
        UPDATE tenant.idempotency_keys x
        SET lease_expires = 'epoch'
        WHERE x.idempotency_key = p_key AND x.user_id = p_user AND x.token = p_token;
    END IF;
END
$release_row$;

-- release: reserved -> absent. Only for the reservation with this token; returns whether there was one. Never changes a
-- row with an outcome. A reservation that this token took over, or whose outcome is unknown, is not deleted: its lease
-- ends at once, and the policy of the next claim applies. (The holder may not know that it took the reservation over,
-- because the reply to its claim may have been lost.) Called by the store for each call in reserved mode that has failed without effect.
CREATE OR REPLACE PROCEDURE tenant.idempotency_release(p_user uuid, p_key uuid, p_token uuid, OUT released boolean)
LANGUAGE plpgsql AS $release$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_hold_as(p_user);
    released := tenant.idempotency_release_row(p_user, p_key, p_token);
END
$release$;

-- Called by tenant.idempotency_abandon.
CREATE OR REPLACE FUNCTION tenant.idempotency_abandon_row(p_user uuid, p_key uuid, p_token uuid, OUT abandoned boolean)
LANGUAGE plpgsql AS $abandon_row$
BEGIN
    UPDATE tenant.idempotency_keys x
    SET lease_expires   = 'epoch',
        outcome_unknown = true
    WHERE x.idempotency_key = p_key
      AND x.user_id = p_user
      AND x.token = p_token
      AND x.response_bytes IS NULL
      AND x.error_bytes IS NULL;
    abandoned := FOUND;
END
$abandon_row$;

-- abandon: reserved -> unknown. Only for the reservation with this token; returns whether there was one. Ends the lease
-- for good; 'rerun' does not take the reservation over. Called by the store for each call in reserved mode that may have taken effect.
CREATE OR REPLACE PROCEDURE tenant.idempotency_abandon(p_user uuid, p_key uuid, p_token uuid, OUT abandoned boolean)
LANGUAGE plpgsql AS $abandon$
DECLARE
    v_set pg_catalog.text;
BEGIN
    COMMIT;
    v_set := tenant.idempotency_hold_as(p_user);
    abandoned := tenant.idempotency_abandon_row(p_user, p_key, p_token);
END
$abandon$;
