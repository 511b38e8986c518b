-- FUN-15's sequence, each step a statement and a commit of its own, around the handler.
SELECT set_config('app.current_user_id', :user || :user, false);
SELECT procedure, request_hash, response_bytes, token, lease_expires, expires
FROM tenant.idempotency_keys
WHERE idempotency_key = (:key_a || :key_b)::uuid AND user_id = (:user || :user)::uuid;
INSERT INTO tenant.idempotency_keys
    (idempotency_key, user_id, procedure, request_hash, expires)
VALUES
    ((:key_a || :key_b)::uuid, (:user || :user)::uuid, :procedure, :hash, now() + interval '24 hours')
ON CONFLICT (idempotency_key, user_id) DO NOTHING;
\startpipeline
BEGIN;
SELECT set_config('app.current_user_id', :user || :user, true);
\endpipeline
INSERT INTO tenant.projects (cluster_id, name) VALUES ((:cluster || :cluster)::uuid, 'project')
RETURNING id AS project \gset
COMMIT;
UPDATE tenant.idempotency_keys
SET response_bytes = :response, project_id = :project::uuid, expires = now() + interval '24 hours'
WHERE idempotency_key = (:key_a || :key_b)::uuid AND user_id = (:user || :user)::uuid AND response_bytes IS NULL;
SELECT set_config('app.current_user_id', '', false);
