-- During a fill: to build a large index at once is far faster than to insert its entries one by one.
ALTER TABLE tenant.idempotency_keys
    DROP CONSTRAINT idempotency_keys_pk,
    DROP CONSTRAINT idempotency_keys_uq_key_user;
DROP INDEX tenant.idempotency_keys_idx_expires;
