-- As functions, with the record's statement written out in its function, and not made there for each call.
\startpipeline
BEGIN;
SELECT state FROM variants.begin(
    (:user || :user)::uuid, (:key_a || :key_b)::uuid, (:token_a || :token_b)::uuid, :procedure, :request);
\endpipeline
INSERT INTO tenant.projects (cluster_id, name) VALUES ((:cluster || :cluster)::uuid, 'project')
RETURNING id AS project \gset
\startpipeline
SELECT variants.commit_static(
    (:user || :user)::uuid, (:key_a || :key_b)::uuid, :procedure, :hash, :response,
    interval '24 hours', :project::uuid);
COMMIT;
\endpipeline
