-- The record of the first call, whose copies fill the table.
CREATE TABLE benchmarks.recorded AS TABLE tenant.idempotency_keys;

-- A vacuum would run during some measurements and not during others.
ALTER TABLE tenant.idempotency_keys SET (autovacuum_enabled = off);
