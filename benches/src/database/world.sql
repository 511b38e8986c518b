-- The table of the look-up by primary key: a key and a response, without row-level security.
CREATE SCHEMA benchmarks;
CREATE TABLE benchmarks.responses (id uuid PRIMARY KEY, response bytea NOT NULL);
GRANT USAGE ON SCHEMA benchmarks TO organization_api;
GRANT SELECT ON benchmarks.responses TO organization_api;
