-- Processes outbox rows that are due, the one that has waited longest first, and returns their new statuses.
--
--   $1  the age at which a row is due, as an interval's text
--   $2  the maximum number of rows
--
-- In a real service, processing would write authorization tuples, provision resources or send mail. Here it does
-- nothing and succeeds, except for a resource whose name starts with `fail-`: that is retried once, and then fails.
--
-- Only due rows are read, by outbox_idx_due: now() can be a bound of an index, and clock_timestamp() cannot. Rows that
-- another worker has locked are skipped; a lock lasts as long as this statement.
WITH due AS (
    SELECT *
    FROM authz.outbox
    WHERE status IN ('pending', 'retrying')
      AND created <= now() - $1::text::interval
    ORDER BY created, id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), processed AS MATERIALIZED (
    SELECT id,
           CASE
               WHEN starts_with(
                   coalesce(
                       (SELECT name FROM tenant.projects WHERE id = due.project_id),
                       (SELECT name FROM tenant.clusters WHERE id = due.cluster_id),
                       (SELECT name FROM tenant.node_pools WHERE id = due.node_pool_id),
                       (SELECT name FROM tenant.namespaces WHERE id = due.namespace_id),
                       (SELECT name FROM tenant.api_keys WHERE id = due.api_key_id),
                       (SELECT name FROM tenant.installs WHERE id = due.install_id),
                       (SELECT email FROM tenant.organization_users WHERE id = due.organization_user_id)
                   ),
                   'fail-'
               ) IS NOT TRUE THEN 'completed'
               WHEN status = 'pending' THEN 'retrying'
               ELSE 'failed'
           END AS status
    FROM due
)
UPDATE authz.outbox o
SET status      = processed.status,
    retries     = o.retries + (processed.status = 'retrying')::integer,
    processed   = CASE WHEN processed.status IN ('completed', 'failed') THEN clock_timestamp() END,
    status_info = CASE WHEN processed.status IN ('retrying', 'failed') THEN 'its name starts with fail-' END
FROM processed
WHERE o.id = processed.id
RETURNING o.status,
          coalesce(
              o.project_id, o.project_member_id, o.cluster_id, o.node_pool_id,
              o.namespace_id, o.api_key_id, o.install_id, o.organization_user_id
          ) AS resource
