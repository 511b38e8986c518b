-- The rights: no role has any on what the migrations make, but the owner; the API's own role and operators get those that they need.

-- Returns the grants that a role lacks to use the store, as statements. A table of a pack has rows of users if it has an owner's policy, and
-- a routine of a pack says in its comment that it is for this role. Called by tenant.idempotency_grant.
CREATE OR REPLACE FUNCTION tenant.idempotency_missing_grants(p_role name) RETURNS SETOF text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT format('GRANT USAGE ON SCHEMA %s TO %I', n.oid::regnamespace, p_role)
    FROM pg_namespace n
    WHERE (n.oid = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass)
           OR n.nspname = 'authn')
      AND NOT has_schema_privilege(p_role, n.oid, 'USAGE')
    UNION ALL
    SELECT format('GRANT %s ON TABLE %s TO %I', string_agg(needed.privilege, ', '), c.oid::regclass, p_role)
    FROM (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS needed (privilege)
    CROSS JOIN pg_class c
    WHERE c.relnamespace = (SELECT k.relnamespace FROM pg_class k WHERE k.oid = 'tenant.idempotency_keys'::regclass)
      AND (c.oid = 'tenant.idempotency_keys'::regclass
           OR EXISTS (SELECT FROM pg_policy o WHERE o.polrelid = c.oid AND o.polname = c.relname || '_owner_policy'))
      AND NOT has_table_privilege(p_role, c.oid, needed.privilege)
    GROUP BY c.oid
    UNION ALL
    SELECT format('GRANT SELECT ON TABLE tenant.idempotency_migrations TO %I', p_role)
    WHERE NOT has_table_privilege(p_role, 'tenant.idempotency_migrations'::regclass, 'SELECT')
    UNION ALL
    SELECT format('GRANT EXECUTE ON ROUTINE %s TO %I', p.oid::regprocedure, p_role)
    FROM pg_proc p
    WHERE (p.pronamespace = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass)
           AND (obj_description(p.oid, 'pg_proc') = 'for the role of the API' OR p.proname IN (
               'idempotency_abandon', 'idempotency_abandon_row', 'idempotency_abandoned', 'idempotency_act_as',
               'idempotency_act_for', 'idempotency_act_for_many', 'idempotency_begin', 'idempotency_begin_row',
               'idempotency_claim', 'idempotency_claim_row', 'idempotency_commit', 'idempotency_commit_row',
               'idempotency_committed', 'idempotency_committed_row', 'idempotency_complete', 'idempotency_complete_many',
               'idempotency_complete_row', 'idempotency_expensive', 'idempotency_extend', 'idempotency_extend_row',
               'idempotency_hold_as', 'idempotency_holder', 'idempotency_in_time', 'idempotency_insert_record', 'idempotency_is_free', 'idempotency_limit_idle',
               'idempotency_lock_id', 'idempotency_look', 'idempotency_look_up', 'idempotency_look_up_row',
               'idempotency_may_take_over', 'idempotency_microseconds', 'idempotency_milliseconds_until',
               'idempotency_needs_primary', 'idempotency_needs_transaction', 'idempotency_needs_type', 'idempotency_owner_set', 'idempotency_policies', 'idempotency_policies_of_keys',
               'idempotency_release', 'idempotency_release_row', 'idempotency_repairs', 'idempotency_reserve_many',
               'idempotency_resource_id', 'idempotency_resource_status', 'idempotency_resource_type', 'idempotency_same_request',
               'idempotency_seed', 'idempotency_set', 'idempotency_settings_of', 'idempotency_soft_status', 'idempotency_state',
               'idempotency_status', 'idempotency_sweep', 'idempotency_sweep_rows', 'idempotency_user_function', 'idempotency_uuidv7', 'idempotency_version',
               'idempotency_write_many'
           ))
           OR p.oid = tenant.idempotency_user_function())
      AND NOT has_function_privilege(p_role, p.oid, 'EXECUTE');
END;

-- Returns the grants that a role lacks to operate the service, as statements. Called by
-- tenant.idempotency_grant_operator.
CREATE OR REPLACE FUNCTION tenant.idempotency_missing_operator_grants(p_role name) RETURNS SETOF text
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT format('GRANT USAGE ON SCHEMA %s TO %I', n.oid::regnamespace, p_role)
    FROM pg_namespace n
    WHERE n.oid = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass)
      AND NOT has_schema_privilege(p_role, n.oid, 'USAGE')
    UNION ALL
    SELECT format('GRANT EXECUTE ON ROUTINE %s TO %I', p.oid::regprocedure, p_role)
    FROM pg_proc p
    WHERE p.pronamespace = (SELECT c.relnamespace FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass)
      AND p.proname IN (
          'idempotency_erase', 'idempotency_evict', 'idempotency_inspect', 'idempotency_list', 'idempotency_operation_key',
          'idempotency_operator_release', 'idempotency_overview'
      )
      AND NOT has_function_privilege(p_role, p.oid, 'EXECUTE');
END;

-- Runs the grants that a role lacks, as this function lists them, and fails if one is still missing: PostgreSQL only warns if a role grants
-- what it may not. Called by tenant.idempotency_grant and tenant.idempotency_grant_operator.
CREATE OR REPLACE FUNCTION tenant.idempotency_run_grants(p_role name, p_missing regproc) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $run$
DECLARE
    v_list CONSTANT text := format('SELECT array_agg(m) FROM %s($1) m', p_missing);
    v_missing text[];
    v_grant text;
BEGIN
    EXECUTE v_list INTO v_missing USING p_role;
    IF v_missing IS NULL THEN
        RETURN;
    END IF;
    -- One server at a time: two GRANTs on one object at once fail.
    LOCK TABLE tenant.idempotency_resource_types IN SHARE ROW EXCLUSIVE MODE;
    EXECUTE v_list INTO v_missing USING p_role;
    FOREACH v_grant IN ARRAY coalesce(v_missing, '{}') LOOP
        BEGIN
            EXECUTE v_grant;
        EXCEPTION WHEN insufficient_privilege THEN
            NULL; -- it is said below
        END;
    END LOOP;
    EXECUTE v_list INTO v_missing USING p_role;
    IF v_missing IS NOT NULL THEN
        RAISE EXCEPTION 'the role % may not grant % what it needs: %', current_user, p_role, array_to_string(v_missing, '; ')
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format(
                      'Grant as %s, which owns the table; what is in the schema authn, as its owner, or all as a superuser.',
                      (SELECT c.relowner::regrole FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass)
                  );
    END IF;
END
$run$;

-- Grants the API's role the privileges that it needs, and no others. If it has them, changes nothing and locks nothing.
CREATE OR REPLACE FUNCTION tenant.idempotency_grant(p_role name) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $grant$
BEGIN
    IF EXISTS (SELECT FROM pg_roles r WHERE r.rolname = p_role AND (r.rolsuper OR r.rolbypassrls)) THEN
        RAISE EXCEPTION 'row-level security does not apply to the role %: it is a superuser or has BYPASSRLS', p_role
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'Make a role of its own for the API: CREATE ROLE my_api_role LOGIN.';
    END IF;
    IF pg_has_role(p_role, (SELECT c.relowner FROM pg_class c WHERE c.oid = 'tenant.idempotency_keys'::regclass), 'MEMBER') THEN
        RAISE WARNING 'the role % owns tenant.idempotency_keys: it can switch row-level security off', p_role
            USING HINT = 'Run the migrations as another role than the API''s.';
    END IF;

    -- Of a table that another role owns than the one that has run the migrations.
    PERFORM tenant.idempotency_adapt();
    PERFORM tenant.idempotency_run_grants(p_role, 'tenant.idempotency_missing_grants'::regproc);
END
$grant$;

-- Grants a role the rights that an operator needs, and no others: none on a table. If it has them, changes nothing and locks nothing.
CREATE OR REPLACE FUNCTION tenant.idempotency_grant_operator(p_role name) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $grant$
BEGIN
    PERFORM tenant.idempotency_run_grants(p_role, 'tenant.idempotency_missing_operator_grants'::regproc);
END
$grant$;

SELECT tenant.idempotency_validate();
