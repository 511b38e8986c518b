-- Processes the outbox rows that are old enough, oldest first, and returns their new statuses.
--
--   $1  the minimum age, as an interval's text
--   $2  the maximum number of rows
--
-- In a real service, processing would write authorization tuples, provision resources or send mail. Here it does
-- nothing and succeeds, except for a resource whose name starts with `fail-`: that is retried once, and then fails.
-- Rows locked by another worker are skipped.
WITH due AS (
    SELECT o.id,
           CASE
               WHEN named.name IS NULL OR NOT starts_with(named.name, 'fail-') THEN 'completed'
               WHEN o.status = 'pending' THEN 'retrying'
               ELSE 'failed'
           END AS status
    FROM authz.outbox o
    LEFT JOIN tenant.projects p ON p.id = o.project_id
    LEFT JOIN tenant.clusters c ON c.id = o.cluster_id
    LEFT JOIN tenant.node_pools n ON n.id = o.node_pool_id
    LEFT JOIN tenant.namespaces s ON s.id = o.namespace_id
    LEFT JOIN tenant.api_keys a ON a.id = o.api_key_id
    LEFT JOIN tenant.installs i ON i.id = o.install_id
    LEFT JOIN tenant.organization_users u ON u.id = o.organization_user_id
    CROSS JOIN LATERAL (SELECT coalesce(p.name, c.name, n.name, s.name, a.name, i.name, u.email) AS name) named
    WHERE o.status IN ('pending', 'retrying')
      AND o.created <= clock_timestamp() - $1::text::interval
    ORDER BY o.id
    LIMIT $2
    FOR UPDATE OF o SKIP LOCKED
)
UPDATE authz.outbox o
SET status      = due.status,
    retries     = o.retries + (due.status = 'retrying')::integer,
    processed   = CASE WHEN due.status IN ('completed', 'failed') THEN clock_timestamp() END,
    status_info = CASE WHEN due.status IN ('retrying', 'failed') THEN 'its name starts with fail-' END
FROM due
WHERE o.id = due.id
RETURNING o.status,
          coalesce(
              o.project_id, o.project_member_id, o.cluster_id, o.node_pool_id,
              o.namespace_id, o.api_key_id, o.install_id, o.organization_user_id
          ) AS resource
