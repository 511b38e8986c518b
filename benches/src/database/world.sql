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
GRANT SELECT, INSERT ON benchmarks.inbox TO organization_api;
GRANT SELECT, INSERT, UPDATE ON benchmarks.by_hand TO organization_api;
GRANT USAGE ON SCHEMA benchmarks TO organization_api;
GRANT SELECT ON benchmarks.responses TO organization_api;
