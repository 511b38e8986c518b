-- Returns what is wrong with the database, as the role of this connection sees it: a problem, its subject and a detail.
--
--   $1  the version that the store needs
--   $2  the names of its resource types
--   $3  their columns
--   $4  the schema
--   $5  the table of keys
--   $6  the kinds of the types' ids: integer, text or uuid
--   $7  the names of the types whose status the function in the database knows
--   $8  whether the driver reads messages
--   $9  whether the store limits the records of one user
--   $10 the routines that the role is granted
--   $11 all routines that the migrations make
--   $12 the numbers of the migrations that make them
--   $13 the checks of the table
--   $14 the tables of the resource types
WITH keys AS (
    SELECT c.oid AS id, format('%I.%I', n.nspname, c.relname) AS name
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $4::text AND c.relname = $5::text
), routines AS (
    SELECT p.oid AS id, p.proname, p.prosrc, format('%I.%I', n.nspname, p.proname) AS name
    FROM pg_proc p
    JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = $4::text AND starts_with(p.proname, 'idempotency_')
), version AS (
    SELECT (SELECT substring(r.prosrc FROM '[0-9]+')::integer FROM routines r WHERE r.proname = 'idempotency_version') AS found
)
SELECT 'exempt_role' AS problem, r.rolname::text AS subject, NULL::text AS detail
FROM pg_roles r
WHERE r.rolname IN (current_user, session_user) AND (r.rolsuper OR r.rolbypassrls)
UNION ALL
SELECT 'missing_table', format('%I.%I', $4::text, $5::text), NULL
WHERE NOT EXISTS (SELECT FROM keys)
UNION ALL
SELECT 'no_row_level_security', keys.name, NULL
FROM keys
WHERE NOT row_security_active(keys.id)
  AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = current_user AND (r.rolsuper OR r.rolbypassrls))
UNION ALL
SELECT 'other_version', NULL, version.found::text
FROM version
WHERE version.found IS DISTINCT FROM $1
UNION ALL
SELECT 'missing_privilege', 'schema ' || quote_ident(n.nspname), 'USAGE ' || current_user
FROM pg_namespace n
WHERE n.nspname IN ($4::text, 'authn') AND NOT has_schema_privilege(n.oid, 'USAGE')
UNION ALL
SELECT 'missing_privilege', 'table ' || used.name, needed.privilege || ' ' || current_user
FROM (
    SELECT keys.id, keys.name FROM keys
    UNION ALL
    SELECT c.oid, format('%I.%I', n.nspname, c.relname)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE $9 AND n.nspname = $4::text AND c.relname = 'idempotency_allowances'
) used
CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS needed (privilege)
WHERE NOT has_table_privilege(used.id, needed.privilege)
UNION ALL
SELECT 'missing_privilege', format('table %I.%I', n.nspname, c.relname), 'SELECT ' || current_user
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $4::text AND c.relname = 'idempotency_migrations' AND NOT has_table_privilege(c.oid, 'SELECT')
UNION ALL
SELECT 'missing_routine', format('%I.%I', $4::text, made.routine), made.version
FROM keys
CROSS JOIN unnest($11::text[], $12::text[]) AS made (routine, version)
WHERE NOT EXISTS (SELECT FROM routines r WHERE r.proname = made.routine)
UNION ALL
SELECT 'missing_pack', 'limits', NULL
WHERE $9 AND NOT EXISTS (SELECT FROM routines r WHERE r.proname = 'idempotency_allow')
UNION ALL
SELECT 'missing_check', made.name, keys.name
FROM keys
CROSS JOIN unnest($13::text[]) AS made (name)
WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = keys.id AND c.conname = made.name)
UNION ALL
SELECT 'setting', needed.name, current_setting(needed.name, true)
FROM (VALUES
    ('client_encoding', ARRAY['UTF8']),
    ('default_transaction_read_only', ARRAY['off']),
    ('exit_on_error', ARRAY['off']),
    ('idempotency.owner', ARRAY['']),
    ('row_security', ARRAY['on']),
    ('session_replication_role', ARRAY['local', 'origin'])
) AS needed (name, allowed)
WHERE current_setting(needed.name, true) <> ALL (needed.allowed)
UNION ALL
SELECT 'loses_commits', current_setting('synchronous_commit'), NULL
WHERE current_setting('synchronous_commit') = 'off'
UNION ALL
SELECT DISTINCT 'subscribed', keys.name, NULL
FROM keys
JOIN pg_subscription_rel s ON s.srrelid = keys.id OR s.srrelid IN (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = keys.id)
UNION ALL
SELECT 'missing_privilege', 'routine ' || r.name, 'EXECUTE ' || current_user
FROM routines r
WHERE (r.proname = ANY ($10::text[]) OR $9 AND obj_description(r.id, 'pg_proc') = 'for the role of the API')
  AND NOT has_function_privilege(r.id, 'EXECUTE')
UNION ALL
SELECT 'missing_privilege', 'routine authn.current_user_id', 'EXECUTE ' || current_user
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'authn' AND p.proname = 'current_user_id' AND p.pronargs = 0
  AND EXISTS (
          SELECT FROM pg_depend d
          WHERE d.classid = 'pg_policy'::regclass AND d.refclassid = 'pg_proc'::regclass AND d.refobjid = p.oid
      )
  AND NOT has_function_privilege(p.oid, 'EXECUTE')
UNION ALL
-- PUBLIC has no right. This role may neither truncate, nor operate, nor read the notes, unless it is the owner.
SELECT DISTINCT 'excess_privilege', o.kind || ' ' || o.name,
       concat(a.privilege_type, ' ', CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
FROM (
    SELECT 'routine', r.proname, r.name, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
    FROM routines r JOIN pg_proc p ON p.oid = r.id
    UNION ALL
    SELECT 'table', c.relname, format('%I.%I', n.nspname, c.relname), c.relowner, r.rights
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    CROSS JOIN LATERAL (SELECT c.relacl UNION ALL SELECT a.attacl FROM pg_attribute a WHERE a.attrelid = c.oid) AS r (rights)
    WHERE n.nspname = $4::text AND (starts_with(c.relname, 'idempotency_') OR c.relname = $5::text)
) AS o (kind, object, name, owner, rights)
CROSS JOIN aclexplode(o.rights) a
WHERE a.grantee = 0
   OR a.grantee <> o.owner
  AND (a.privilege_type = 'TRUNCATE'
       OR o.object IN ('idempotency_audit', 'idempotency_erase', 'idempotency_evict', 'idempotency_inspect', 'idempotency_list',
                       'idempotency_operator_release'))
  AND NOT EXISTS (SELECT FROM pg_roles s WHERE s.rolname = current_user AND s.rolsuper)
  AND pg_has_role(a.grantee, 'USAGE')
UNION ALL
SELECT 'unregistered_type', wanted.name, wanted.resource_column
FROM keys
CROSS JOIN unnest($2::text[], $3::text[]) AS wanted (name, resource_column)
WHERE NOT EXISTS (
          SELECT FROM pg_attribute a
          JOIN pg_constraint c ON c.conrelid = a.attrelid AND c.contype = 'f' AND a.attnum = ANY (c.conkey)
          WHERE a.attrelid = keys.id AND a.attname = wanted.resource_column
          UNION ALL
          SELECT FROM pg_partitioned_table p WHERE p.partrelid = keys.id
      )
   OR NOT EXISTS (
          SELECT FROM routines r
          WHERE r.proname = 'idempotency_complete_row'
            AND position(', ' || quote_literal(wanted.resource_column) IN r.prosrc) > 0
      )
UNION ALL
-- Of partitions, if there are records that it does not fit.
SELECT 'no_reference', wanted.name, NULL
FROM keys
JOIN pg_partitioned_table p ON p.partrelid = keys.id
CROSS JOIN unnest($2::text[], $3::text[]) AS wanted (name, resource_column)
JOIN pg_attribute a ON a.attrelid = keys.id AND a.attname = wanted.resource_column
WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = keys.id AND c.contype = 'f' AND a.attnum = ANY (c.conkey))
UNION ALL
-- A table that was renamed keeps the foreign key.
SELECT 'other_table', wanted.name, pg_catalog.min(f.name)
FROM keys
CROSS JOIN unnest($2::text[], $3::text[], $14::text[]) AS wanted (name, resource_column, resource_table)
JOIN pg_attribute a ON a.attrelid = keys.id AND a.attname = wanted.resource_column
JOIN pg_constraint c ON c.conrelid = keys.id AND c.contype = 'f' AND c.conkey = ARRAY[a.attnum]
CROSS JOIN LATERAL (
    SELECT format('%I.%I', n.nspname, t.relname) AS name,
           parse_ident(wanted.resource_table)
               IN (ARRAY[t.relname::pg_catalog.text], ARRAY[n.nspname::pg_catalog.text, t.relname::pg_catalog.text]) AS is_wanted
    FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE t.oid = c.confrelid
) f
GROUP BY wanted.name
HAVING NOT pg_catalog.bool_or(f.is_wanted)
UNION ALL
SELECT 'other_id_kind', wanted.name, format_type(a.atttypid, NULL)
FROM keys
CROSS JOIN unnest($2::text[], $3::text[], $6::text[]) AS wanted (name, resource_column, kind)
JOIN pg_attribute a ON a.attrelid = keys.id AND a.attname = wanted.resource_column AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
WHERE coalesce(nullif(t.typbasetype, 0), t.oid)::regtype <> ALL (CASE wanted.kind
          WHEN 'integer' THEN ARRAY['smallint', 'integer', 'bigint']::regtype[]
          WHEN 'text' THEN ARRAY['text', 'varchar']::regtype[]
          ELSE ARRAY['uuid']::regtype[]
      END)
UNION ALL
SELECT 'no_status', r.name, array_to_string($7::text[], ', ')
FROM routines r
WHERE cardinality($7::text[]) > 0
  AND r.proname = 'idempotency_resource_status'
  AND pg_get_function_sqlbody(r.id) = 'RETURN NULL::text'
UNION ALL
SELECT 'messages', current_setting('lc_messages'), NULL
WHERE $8
UNION ALL
SELECT 'no_index_of_users', keys.name, NULL
FROM keys
WHERE $9
  AND NOT EXISTS (
          SELECT FROM pg_index i
          JOIN pg_attribute u ON u.attrelid = i.indrelid AND u.attnum = i.indkey[0]
          JOIN pg_attribute e ON e.attrelid = i.indrelid AND e.attnum = i.indkey[1]
          WHERE i.indrelid = keys.id AND u.attname = 'user_id' AND e.attname = 'expires' AND i.indpred IS NULL AND i.indisvalid
      )
ORDER BY 1, 2, 3
