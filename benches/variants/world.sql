-- Who and what the scripts refer to: one organisation, 900 users and as many clusters, so that no row is everybody's,
-- and the API's own role. An id is a number of 16 digits, twice.

CREATE ROLE variants_api NOLOGIN;
SELECT tenant.organization_grant('variants_api');

INSERT INTO tenant.organizations (id, name) VALUES ('10000000-0000-0000-1000-000000000000', 'organization');

INSERT INTO tenant.users (id, organization_id, name)
SELECT (n || n::text)::uuid, '10000000-0000-0000-1000-000000000000', 'user'
FROM generate_series(1000000000000001, 1000000000000900) n;

INSERT INTO tenant.clusters (id, organization_id, name, region)
SELECT (n || n::text)::uuid, '10000000-0000-0000-1000-000000000000', 'cluster', 'here'
FROM generate_series(1000000000000001, 1000000000000900) n;

ANALYZE;
