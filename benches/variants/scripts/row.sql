-- The reservation as a row in the handler's transaction: inserted first, completed last.
\startpipeline
BEGIN;
SELECT set_config('app.current_user_id', :user || :user, true);
INSERT INTO tenant.idempotency_keys
    (idempotency_key, user_id, procedure, request_hash, token, lease_expires, expires)
VALUES
    ((:key_a || :key_b)::uuid, (:user || :user)::uuid, :procedure, :hash, (:token_a || :token_b)::uuid,
     now() + interval '5 minutes', now() + interval '24 hours')
ON CONFLICT (idempotency_key, user_id) DO NOTHING;
\endpipeline
INSERT INTO tenant.projects (cluster_id, name) VALUES ((:cluster || :cluster)::uuid, 'project')
RETURNING id AS project \gset
\startpipeline
UPDATE tenant.idempotency_keys
SET response_bytes = :response, project_id = :project::uuid
WHERE idempotency_key = (:key_a || :key_b)::uuid AND user_id = (:user || :user)::uuid AND response_bytes IS NULL;
COMMIT;
\endpipeline
