-- The indexes of the migrations.
SET maintenance_work_mem = '512MB';
ALTER TABLE tenant.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pk PRIMARY KEY (id),
    ADD CONSTRAINT idempotency_keys_uq_key_user UNIQUE (idempotency_key, user_id);
CREATE INDEX idempotency_keys_idx_expires ON tenant.idempotency_keys (expires);
RESET maintenance_work_mem;
