-- Grants the API's own role the rights that it needs, tenant.idempotency_keys included, and no more: it reads and creates, deletes
-- projects, changes nothing, and neither reads a hash of a secret nor writes to the outbox. Granting again changes nothing.
CREATE FUNCTION tenant.organization_grant(p_role name) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $grant$
BEGIN
    PERFORM tenant.idempotency_grant(p_role);
    EXECUTE format('GRANT USAGE ON SCHEMA authz TO %I', p_role);
    EXECUTE format('GRANT SELECT ON tenant.organizations, tenant.users, authz.outbox TO %I', p_role);
    EXECUTE format(
        'GRANT SELECT, INSERT ON tenant.projects, tenant.project_members, tenant.clusters, tenant.node_pools, '
        'tenant.namespaces, tenant.nodes, tenant.installs, tenant.organization_users TO %I',
        p_role
    );
    EXECUTE format('GRANT DELETE ON tenant.projects TO %I', p_role);
    EXECUTE format('GRANT SELECT (id, organization_id, user_id, name, created), INSERT ON tenant.api_keys TO %I', p_role);
END
$grant$;
REVOKE EXECUTE ON FUNCTION tenant.organization_grant(name) FROM PUBLIC;
