-- Ties the organisation to tenant.idempotency_keys: registers the eight resource types, and the look-up of their status.

SELECT tenant.idempotency_register_resource('project', 'project_id', 'tenant.projects');
SELECT tenant.idempotency_register_resource('project_member', 'project_member_id', 'tenant.project_members');
SELECT tenant.idempotency_register_resource('cluster', 'cluster_id', 'tenant.clusters');
SELECT tenant.idempotency_register_resource('node_pool', 'node_pool_id', 'tenant.node_pools');
SELECT tenant.idempotency_register_resource('namespace', 'namespace_id', 'tenant.namespaces');
SELECT tenant.idempotency_register_resource('api_key', 'api_key_id', 'tenant.api_keys');
SELECT tenant.idempotency_register_resource('install', 'install_id', 'tenant.installs');
SELECT tenant.idempotency_register_resource('organization_user', 'organization_user_id', 'tenant.organization_users');
SELECT tenant.idempotency_validate();

-- The newest outbox status of a resource, NULL where there is none: one index look-up, in the index of its type.
CREATE OR REPLACE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text) RETURNS text
LANGUAGE plpgsql STABLE AS $status$
DECLARE
    v_id CONSTANT uuid := p_resource;
BEGIN
    CASE p_resource_type
        WHEN 'project' THEN
            RETURN (SELECT o.status FROM authz.outbox o WHERE o.project_id = v_id ORDER BY o.id DESC LIMIT 1);
        WHEN 'project_member' THEN
            RETURN (SELECT o.status FROM authz.outbox o WHERE o.project_member_id = v_id ORDER BY o.id DESC LIMIT 1);
        WHEN 'cluster' THEN
            RETURN (SELECT o.status FROM authz.outbox o WHERE o.cluster_id = v_id ORDER BY o.id DESC LIMIT 1);
        WHEN 'node_pool' THEN
            RETURN (SELECT o.status FROM authz.outbox o WHERE o.node_pool_id = v_id ORDER BY o.id DESC LIMIT 1);
        WHEN 'namespace' THEN
            RETURN (SELECT o.status FROM authz.outbox o WHERE o.namespace_id = v_id ORDER BY o.id DESC LIMIT 1);
        WHEN 'api_key' THEN
            RETURN (SELECT o.status FROM authz.outbox o WHERE o.api_key_id = v_id ORDER BY o.id DESC LIMIT 1);
        WHEN 'install' THEN
            RETURN (SELECT o.status FROM authz.outbox o WHERE o.install_id = v_id ORDER BY o.id DESC LIMIT 1);
        WHEN 'organization_user' THEN
            RETURN (SELECT o.status FROM authz.outbox o WHERE o.organization_user_id = v_id ORDER BY o.id DESC LIMIT 1);
        ELSE
            RETURN NULL;
    END CASE;
END
$status$;
