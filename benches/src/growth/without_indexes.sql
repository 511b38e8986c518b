-- For the time of a fill: entries one by one, all over a large index, take far longer than building it at once.
ALTER TABLE tenant.idempotency_keys
    DROP CONSTRAINT idempotency_keys_pk,
    DROP CONSTRAINT idempotency_keys_uq_key_user;
DROP INDEX tenant.idempotency_keys_idx_expires;
