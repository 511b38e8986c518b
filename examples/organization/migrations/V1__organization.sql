-- The sample's world, which is the Go service's: the projects, clusters and other resources of one organisation, under row-level security.
--
-- Run it after migrations/core, as the owner. Then, for the API's own role (neither superuser nor owner):
--
--   SELECT tenant.organization_grant('my_api_role');
--
-- Nothing but the ids is unique, names least of all: a resource that was created twice is to show as a second row. A
-- reference takes the organisation along (two-column foreign keys), so that no row can point into another organisation,
-- and one to a row that is not there fails with a constraint that names what was missing: `…_fk_project`.

CREATE SCHEMA IF NOT EXISTS authz;

CREATE TABLE tenant.organizations (
    id      uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT organizations_pk PRIMARY KEY,
    name    text        NOT NULL,
    created timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE tenant.users (
    id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT users_pk PRIMARY KEY,
    organization_id uuid        NOT NULL CONSTRAINT users_fk_organization REFERENCES tenant.organizations (id),
    name            text        NOT NULL,
    created         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT users_uq_organization UNIQUE (organization_id, id)
);

-- The organisation of this transaction's user, or NULL. It reads tenant.users under the policy below, which does not ask
-- for the organisation, so that nothing goes in circles. PL/pgSQL keeps the plan; an SQL function would make it anew for
-- every statement.
CREATE FUNCTION authn.current_organization_id() RETURNS uuid
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $organization$
BEGIN
    RETURN (
        SELECT u.organization_id FROM tenant.users u WHERE u.id OPERATOR(pg_catalog.=) authn.current_user_id()
    );
END
$organization$;
REVOKE EXECUTE ON FUNCTION authn.current_organization_id() FROM PUBLIC;

CREATE TABLE tenant.clusters (
    id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT clusters_pk PRIMARY KEY,
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id()
                                CONSTRAINT clusters_fk_organization REFERENCES tenant.organizations (id),
    name            text        NOT NULL,
    region          text        NOT NULL,
    created         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT clusters_uq_organization UNIQUE (organization_id, id)
);

CREATE TABLE tenant.node_pools (
    id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT node_pools_pk PRIMARY KEY,
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id(),
    cluster_id      uuid        NOT NULL,
    name            text        NOT NULL,
    machine_type    text        NOT NULL,
    nodes           integer     NOT NULL CONSTRAINT node_pools_ck_nodes CHECK (nodes > 0),
    created         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT node_pools_fk_cluster FOREIGN KEY (organization_id, cluster_id)
        REFERENCES tenant.clusters (organization_id, id)
);

-- A machine in a cluster, under the id that it gives itself. The primary key is what makes a second registration harmless.
CREATE TABLE tenant.nodes (
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id(),
    id              text        NOT NULL CONSTRAINT nodes_ck_id CHECK (length(id) BETWEEN 1 AND 255),
    cluster_id      uuid        NOT NULL,
    machine_type    text        NOT NULL,
    registered      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT nodes_pk PRIMARY KEY (organization_id, id),
    CONSTRAINT nodes_fk_cluster FOREIGN KEY (organization_id, cluster_id)
        REFERENCES tenant.clusters (organization_id, id)
);

-- Something installed in a cluster.
CREATE TABLE tenant.installs (
    id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT installs_pk PRIMARY KEY,
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id(),
    cluster_id      uuid        NOT NULL,
    name            text        NOT NULL,
    version         text        NOT NULL,
    created         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT installs_fk_cluster FOREIGN KEY (organization_id, cluster_id)
        REFERENCES tenant.clusters (organization_id, id)
);

CREATE TABLE tenant.projects (
    id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT projects_pk PRIMARY KEY,
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id(),
    cluster_id      uuid        NOT NULL,
    name            text        NOT NULL,
    alias           text,
    labels          jsonb       NOT NULL DEFAULT '{}',
    created         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT projects_uq_organization UNIQUE (organization_id, id),
    CONSTRAINT projects_fk_cluster FOREIGN KEY (organization_id, cluster_id)
        REFERENCES tenant.clusters (organization_id, id)
);

CREATE TABLE tenant.project_members (
    id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT project_members_pk PRIMARY KEY,
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id(),
    project_id      uuid        NOT NULL,
    user_id         uuid        NOT NULL,
    role            text        NOT NULL CONSTRAINT project_members_ck_role CHECK (role IN ('admin', 'viewer')),
    created         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT project_members_fk_project FOREIGN KEY (organization_id, project_id)
        REFERENCES tenant.projects (organization_id, id) ON DELETE CASCADE,
    CONSTRAINT project_members_fk_user FOREIGN KEY (organization_id, user_id)
        REFERENCES tenant.users (organization_id, id)
);

CREATE TABLE tenant.namespaces (
    id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT namespaces_pk PRIMARY KEY,
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id(),
    project_id      uuid        NOT NULL,
    name            text        NOT NULL,
    created         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT namespaces_fk_project FOREIGN KEY (organization_id, project_id)
        REFERENCES tenant.projects (organization_id, id) ON DELETE CASCADE
);

-- A user's key to the API. Of the secret only its SHA-256 is kept.
CREATE TABLE tenant.api_keys (
    id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT api_keys_pk PRIMARY KEY,
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id(),
    user_id         uuid        NOT NULL DEFAULT authn.current_user_id(),
    name            text        NOT NULL,
    token_hash      bytea       NOT NULL CONSTRAINT api_keys_ck_token_hash CHECK (length(token_hash) = 32),
    created         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT api_keys_fk_user FOREIGN KEY (organization_id, user_id)
        REFERENCES tenant.users (organization_id, id)
);

-- Invitations to the organisation.
CREATE TABLE tenant.organization_users (
    id              uuid        NOT NULL DEFAULT tenant.idempotency_uuidv7() CONSTRAINT organization_users_pk PRIMARY KEY,
    organization_id uuid        NOT NULL DEFAULT authn.current_organization_id()
                                CONSTRAINT organization_users_fk_organization REFERENCES tenant.organizations (id),
    email           text        NOT NULL,
    role            text        NOT NULL CONSTRAINT organization_users_ck_role CHECK (role IN ('admin', 'viewer')),
    status          text        NOT NULL DEFAULT 'invited'
                                CONSTRAINT organization_users_ck_status CHECK (status IN ('invited', 'accepted', 'revoked')),
    created         timestamptz NOT NULL DEFAULT now()
);

-- Indexes for lists by parent.
CREATE INDEX projects_idx_cluster ON tenant.projects (cluster_id);
CREATE INDEX node_pools_idx_cluster ON tenant.node_pools (cluster_id);
CREATE INDEX nodes_idx_cluster ON tenant.nodes (cluster_id);
CREATE INDEX installs_idx_cluster ON tenant.installs (cluster_id);
CREATE INDEX project_members_idx_project ON tenant.project_members (project_id);
CREATE INDEX namespaces_idx_project ON tenant.namespaces (project_id);
CREATE INDEX api_keys_idx_user ON tenant.api_keys (user_id);
CREATE INDEX organization_users_idx_organization ON tenant.organization_users (organization_id);

-- Row-level security, forced: the tables' owner is bound by it too. A user sees and writes what belongs to the
-- organisation, of the users only themselves, and of the API keys only their own. The sub-select is evaluated once per
-- statement, not once per row.
DO $policies$
DECLARE
    v_table text;
BEGIN
    FOREACH v_table IN ARRAY ARRAY[
        'organizations', 'users', 'clusters', 'node_pools', 'nodes', 'installs', 'projects', 'project_members', 'namespaces',
        'api_keys', 'organization_users'
    ] LOOP
        EXECUTE format('ALTER TABLE tenant.%I ENABLE ROW LEVEL SECURITY', v_table);
        EXECUTE format('ALTER TABLE tenant.%I FORCE ROW LEVEL SECURITY', v_table);
        EXECUTE format(
            'CREATE POLICY %I ON tenant.%I FOR ALL USING (%s)',
            v_table || '_policy',
            v_table,
            CASE v_table
                WHEN 'organizations' THEN 'id = (SELECT authn.current_organization_id())'
                WHEN 'users' THEN 'id = authn.current_user_id()'
                WHEN 'api_keys' THEN 'user_id = authn.current_user_id()'
                ELSE 'organization_id = (SELECT authn.current_organization_id())'
            END
        );
    END LOOP;
END
$policies$;
