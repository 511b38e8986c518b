-- Records the key that an invitation was made with, and the mail that went out, so that InviteMember can be reconciled.

ALTER TABLE tenant.organization_users
    ADD COLUMN idempotency_key uuid,
    ADD COLUMN invited_by      uuid DEFAULT authn.current_user_id();

-- Not unique: an invitation that was made twice is to show as a second row.
CREATE INDEX organization_users_idx_key ON tenant.organization_users (invited_by, idempotency_key);

ALTER TABLE tenant.organization_users
    ADD CONSTRAINT organization_users_uq_organization UNIQUE (organization_id, id);

-- Stands for a mail provider: it takes a mail once for each invitation. The key has the organisation in it: otherwise a
-- row of another organisation, which row-level security hides, could take the place of a mail.
CREATE TABLE tenant.mails (
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id(),
    invitation_id   uuid        NOT NULL,
    recipient       text        NOT NULL,
    sent            timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT mails_pk PRIMARY KEY (organization_id, invitation_id),
    CONSTRAINT mails_fk_invitation FOREIGN KEY (organization_id, invitation_id)
        REFERENCES tenant.organization_users (organization_id, id) ON DELETE CASCADE
);

ALTER TABLE tenant.mails ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant.mails FORCE ROW LEVEL SECURITY;
CREATE POLICY mails_policy ON tenant.mails
    FOR ALL USING (organization_id = (SELECT authn.current_organization_id()));

CREATE OR REPLACE FUNCTION tenant.organization_grant(p_role name) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $grant$
BEGIN
    -- One server at a time: two GRANTs on one object at once fail.
    PERFORM pg_advisory_xact_lock(hashtext('tenant.organization_grant'));
    PERFORM tenant.idempotency_grant(p_role);
    EXECUTE format('GRANT USAGE ON SCHEMA authz TO %I', p_role);
    EXECUTE format('GRANT EXECUTE ON FUNCTION authn.current_organization_id() TO %I', p_role);
    EXECUTE format('GRANT SELECT ON tenant.organizations, tenant.users, authz.outbox TO %I', p_role);
    EXECUTE format(
        'GRANT SELECT, INSERT ON tenant.projects, tenant.project_members, tenant.clusters, tenant.node_pools, '
        'tenant.namespaces, tenant.nodes, tenant.installs, tenant.organization_users, tenant.mails TO %I',
        p_role
    );
    EXECUTE format('GRANT DELETE ON tenant.projects TO %I', p_role);
    EXECUTE format('GRANT SELECT (id, organization_id, user_id, name, created), INSERT ON tenant.api_keys TO %I', p_role);
END
$grant$;
