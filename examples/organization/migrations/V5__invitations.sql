-- What InviteMember needs to be reconciled: the key that an invitation was made with, and the mail that went out.

ALTER TABLE tenant.organization_users
    ADD COLUMN idempotency_key uuid,
    ADD COLUMN invited_by      uuid DEFAULT authn.current_user_id();

-- Not unique: an invitation that was made twice is to show as a second row.
CREATE INDEX organization_users_idx_key ON tenant.organization_users (invited_by, idempotency_key);

-- Stands for a mail provider: it takes a mail once for each invitation.
CREATE TABLE tenant.mails (
    invitation_id   uuid        NOT NULL CONSTRAINT mails_pk PRIMARY KEY
                                CONSTRAINT mails_fk_invitation REFERENCES tenant.organization_users (id) ON DELETE CASCADE,
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id(),
    recipient       text        NOT NULL,
    sent            timestamptz NOT NULL DEFAULT now()
);

ALTER TABLE tenant.mails ENABLE ROW LEVEL SECURITY;
ALTER TABLE tenant.mails FORCE ROW LEVEL SECURITY;
CREATE POLICY mails_policy ON tenant.mails
    FOR ALL USING (organization_id = (SELECT authn.current_organization_id()));

CREATE OR REPLACE FUNCTION tenant.organization_grant(p_role name) RETURNS void
LANGUAGE plpgsql AS $grant$
BEGIN
    PERFORM tenant.idempotency_grant(p_role);
    EXECUTE format('GRANT USAGE ON SCHEMA authz TO %I', p_role);
    EXECUTE format('GRANT SELECT ON tenant.organizations, tenant.users, authz.outbox TO %I', p_role);
    EXECUTE format(
        'GRANT SELECT, INSERT ON tenant.projects, tenant.project_members, tenant.clusters, tenant.node_pools, '
        'tenant.namespaces, tenant.installs, tenant.organization_users, tenant.mails TO %I',
        p_role
    );
    EXECUTE format('GRANT SELECT (id, organization_id, user_id, name, created), INSERT ON tenant.api_keys TO %I', p_role);
END
$grant$;
