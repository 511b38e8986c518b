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
SELECT 'missing_privilege', 'schema ' || quote_ident(n.nspname), 'USAGE'
FROM pg_namespace n
WHERE n.nspname IN ($4::text, 'authn') AND NOT has_schema_privilege(n.oid, 'USAGE')
UNION ALL
SELECT 'missing_privilege', 'table ' || keys.name, needed.privilege
FROM keys
CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS needed (privilege)
WHERE NOT has_table_privilege(keys.id, needed.privilege)
UNION ALL
SELECT 'missing_privilege', 'routine ' || r.name, 'EXECUTE'
FROM routines r
WHERE r.proname NOT IN (
          -- The owner's own, and the operators'.
          'idempotency_adapt', 'idempotency_grant_operator', 'idempotency_inspect', 'idempotency_key_id',
          'idempotency_missing_operator_grants', 'idempotency_operator_release', 'idempotency_operator_release_on_node',
          'idempotency_stuck',
          'idempotency_grant', 'idempotency_id_type', 'idempotency_missing_grants', 'idempotency_owner',
          'idempotency_register_resource',
          'idempotency_unregistered', 'idempotency_validate', 'idempotency_write_statements',
          -- Those of partitions.
          'idempotency_begin_comparing', 'idempotency_begin_mirroring', 'idempotency_begin_move', 'idempotency_check_partitioning',
          'idempotency_compare_batch', 'idempotency_compare_changes', 'idempotency_compare_rows', 'idempotency_copy_batch',
          'idempotency_copy_rows', 'idempotency_drop_before', 'idempotency_empty_changes', 'idempotency_end_move',
          'idempotency_functions_of', 'idempotency_lock_move', 'idempotency_make_next', 'idempotency_mirror',
          'idempotency_mirrors', 'idempotency_missing_references', 'idempotency_move_step', 'idempotency_move_to_partitions',
          'idempotency_note_change', 'idempotency_partition', 'idempotency_partitions', 'idempotency_see_all',
          'idempotency_stop_moving', 'idempotency_switch_tables', 'idempotency_write_mirror'
      )
  AND NOT has_function_privilege(r.id, 'EXECUTE')
UNION ALL
SELECT 'missing_privilege', 'routine authn.current_user_id', 'EXECUTE'
FROM pg_proc p
JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'authn' AND p.proname = 'current_user_id' AND p.pronargs = 0
  AND NOT has_function_privilege(p.oid, 'EXECUTE')
UNION ALL
SELECT 'unregistered_type', wanted.name, wanted.resource_column
FROM keys
CROSS JOIN unnest($2::text[], $3::text[]) AS wanted (name, resource_column)
WHERE NOT EXISTS (
          SELECT FROM pg_attribute a
          JOIN pg_constraint c ON c.conrelid = a.attrelid AND c.contype = 'f' AND a.attnum = ANY (c.conkey)
          WHERE a.attrelid = keys.id AND a.attname = wanted.resource_column
      )
   OR NOT EXISTS (
          SELECT FROM routines r
          WHERE r.proname = 'idempotency_complete'
            AND position(', ' || quote_literal(wanted.resource_column) IN r.prosrc) > 0
      )
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
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
          WHERE i.indrelid = keys.id AND a.attname = 'user_id' AND i.indpred IS NULL AND i.indisvalid
      )
ORDER BY 1, 2, 3
