-- What a bare look-up reads: a table with nothing but a key and a response, and no row-level security.
CREATE SCHEMA benchmarks;
CREATE TABLE benchmarks.responses (id uuid PRIMARY KEY, response bytea NOT NULL);
GRANT USAGE ON SCHEMA benchmarks TO organization_api;
GRANT SELECT ON benchmarks.responses TO organization_api;
