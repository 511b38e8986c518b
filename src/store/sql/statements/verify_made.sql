-- Returns what is wrong with what the migrations have made, as sql/verify.sql does: a problem, its subject and a detail. Its tables and
-- functions have to be there.
--
--   $1  the numbers of the migrations
--   $2  their checksums
SELECT 'missing_migration' AS problem, m.version AS subject, NULL::text AS detail
FROM unnest($1::text[], $2::text[]) AS m (version, checksum)
LEFT JOIN tenant.idempotency_migrations r ON r.version = m.version::integer
WHERE r.checksum IS DISTINCT FROM m.checksum
UNION ALL
SELECT 'other_owner', r, NULL
FROM tenant.idempotency_repairs() r
