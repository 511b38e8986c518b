-- One call each of tenant.idempotency_claim and tenant.idempotency_complete around the handler.
SELECT state FROM tenant.idempotency_claim(
    (:user || :user)::uuid, (:key_a || :key_b)::uuid, (:token_a || :token_b)::uuid, :procedure, :hash,
    300, 86400, 'rerun', 'project');
\startpipeline
BEGIN;
SELECT set_config('app.current_user_id', :user || :user, true);
\endpipeline
INSERT INTO tenant.projects (cluster_id, name) VALUES ((:cluster || :cluster)::uuid, 'project')
RETURNING id AS project \gset
COMMIT;
SELECT tenant.idempotency_complete(
    (:user || :user)::uuid, (:key_a || :key_b)::uuid, (:token_a || :token_b)::uuid, :response,
    false, NULL, NULL, 86400, 'project_id', :project::uuid);
