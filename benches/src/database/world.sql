-- The table of the look-up by primary key: a key and a response, without row-level security.
CREATE SCHEMA benchmarks;
CREATE TABLE benchmarks.responses (id uuid PRIMARY KEY, response bytea NOT NULL);
-- The table of a guard that is written by hand.
CREATE TABLE benchmarks.by_hand (
    user_id uuid NOT NULL,
    idempotency_key uuid NOT NULL,
    procedure text NOT NULL,
    request_hash bytea NOT NULL,
    response bytea,
    created timestamptz NOT NULL DEFAULT now(),
    completed timestamptz,
    PRIMARY KEY (user_id, idempotency_key)
);
-- The table of an inbox that is written by hand.
CREATE TABLE benchmarks.inbox (message_id uuid PRIMARY KEY, received timestamptz NOT NULL DEFAULT now());
-- Transactions that lose read and write four of these rows. There are many, so that PostgreSQL finds the four by the index.
CREATE TABLE benchmarks.counters (id integer PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO benchmarks.counters SELECT id, 0 FROM generate_series(0, 9999) id;
ANALYZE benchmarks.counters;
GRANT SELECT, UPDATE ON benchmarks.counters TO organization_api;
GRANT SELECT, INSERT ON benchmarks.inbox TO organization_api;
GRANT SELECT, INSERT, UPDATE ON benchmarks.by_hand TO organization_api;
GRANT USAGE ON SCHEMA benchmarks TO organization_api;
GRANT SELECT ON benchmarks.responses TO organization_api;
