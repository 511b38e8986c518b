-- The handler alone: one insert, whose trigger writes the outbox row, in a transaction with the user set.
\startpipeline
BEGIN;
SELECT set_config('app.current_user_id', :user || :user, true);
\endpipeline
INSERT INTO tenant.projects (cluster_id, name) VALUES ((:cluster || :cluster)::uuid, 'project')
RETURNING id AS project \gset
COMMIT;
