-- As lock_request, as the two functions of functions.sql, which also keep the token and limit the wait for the client.
\startpipeline
BEGIN;
SELECT state FROM variants.begin(
    (:user || :user)::uuid, (:key_a || :key_b)::uuid, (:token_a || :token_b)::uuid, :procedure, :request);
\endpipeline
INSERT INTO tenant.projects (cluster_id, name) VALUES ((:cluster || :cluster)::uuid, 'project')
RETURNING id AS project \gset
\startpipeline
SELECT variants.commit(
    (:user || :user)::uuid, (:key_a || :key_b)::uuid, :procedure, :hash, :response,
    interval '24 hours', 'project_id', :project::uuid);
COMMIT;
\endpipeline
