-- The record of the one call that there is: what the table is filled with.
CREATE TABLE benchmarks.recorded AS TABLE tenant.idempotency_keys;

-- What it does, it would do in the middle of one measurement and not of another.
ALTER TABLE tenant.idempotency_keys SET (autovacuum_enabled = off);
