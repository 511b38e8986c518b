CREATE TABLE app.projects (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), status text);

SELECT create_reference_table('app.projects');

ALTER TABLE app.projects OWNER TO my_owner_role;

GRANT SELECT, INSERT ON app.projects TO my_api_role;

CREATE OR REPLACE FUNCTION tenant.idempotency_resource_status(p_resource_type text, p_resource text) RETURNS text
LANGUAGE plpgsql STABLE AS $status$
BEGIN
    RETURN (SELECT p.status FROM app.projects p WHERE p_resource_type = 'project' AND p.id = p_resource::uuid);
END
$status$;
