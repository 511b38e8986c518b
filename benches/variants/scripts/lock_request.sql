-- As lock, with a second, shared lock of procedure and request in front.
\startpipeline
BEGIN;
SELECT set_config('app.current_user_id', :user || :user, true);
SELECT pg_advisory_xact_lock_shared(1, hashtext(:procedure || :request));
SELECT pg_try_advisory_xact_lock(hashtextextended((:user || :user) || (:key_a || :key_b)::uuid::text, 0));
SELECT procedure, request_hash, response_bytes, token, lease_expires, expires
FROM tenant.idempotency_keys
WHERE idempotency_key = (:key_a || :key_b)::uuid AND user_id = (:user || :user)::uuid;
\endpipeline
INSERT INTO tenant.projects (cluster_id, name) VALUES ((:cluster || :cluster)::uuid, 'project')
RETURNING id AS project \gset
\startpipeline
INSERT INTO tenant.idempotency_keys
    (idempotency_key, user_id, procedure, request_hash, response_bytes, project_id, token, expires)
VALUES
    ((:key_a || :key_b)::uuid, (:user || :user)::uuid, :procedure, :hash, :response, :project::uuid,
     (:token_a || :token_b)::uuid, now() + interval '24 hours')
ON CONFLICT (idempotency_key, user_id) DO NOTHING;
COMMIT;
\endpipeline
