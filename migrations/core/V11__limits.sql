-- What the limits of one user's records need (`max_records_per_user` and `max_bytes_per_user` of the store). A user's records are counted
-- by an index that is led by user_id: that of a partitioned table (V10), or one that somebody has made.

-- Names mean PostgreSQL's own, whatever the role's search_path is. The last statement restores it.
SELECT pg_catalog.set_config('app.idempotency_search_path', pg_catalog.current_setting('search_path'), false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);

-- Returns whether the table has an index by which the records of a user are found.
CREATE OR REPLACE FUNCTION tenant.idempotency_finds_users() RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $finds_users$
BEGIN
    RETURN EXISTS (
        SELECT FROM pg_index i
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = 'tenant.idempotency_keys'::regclass
          AND a.attname = 'user_id' AND i.indpred IS NULL AND i.indisvalid
    );
END
$finds_users$;

-- usage: returns how many records a user has, and of how many bytes (0 unless p_with_bytes): responses, their metadata, and errors. Runs
-- with the caller's privileges, under row-level security, as the owner in its first parameter.
--
-- Entries of the index are counted, up to p_most, without a look at the rows. Only if there are as many, or with p_with_bytes, the rows
-- are read, and those that have expired do not count.
CREATE OR REPLACE FUNCTION tenant.idempotency_usage(
    p_user uuid, p_most bigint, p_with_bytes boolean, OUT records bigint, OUT bytes bigint
)
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off AS $usage$
DECLARE
    v_set text; -- an assignment costs less than PERFORM
BEGIN
    IF NOT tenant.idempotency_finds_users() THEN
        RAISE EXCEPTION 'the records of a user cannot be counted: no index of tenant.idempotency_keys is led by user_id'
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Partition the table, or make such an index.';
    END IF;
    v_set := set_config('idempotency.owner', p_user::text, true) || set_config('app.current_user_id', p_user::text, true);
    bytes := 0;
    SELECT count(*) INTO records
    FROM (SELECT FROM tenant.idempotency_keys k WHERE k.user_id = p_user LIMIT p_most) e;
    IF p_with_bytes OR records >= p_most THEN
        SELECT count(*), coalesce(sum(r.size), 0) INTO records, bytes
        FROM (
            SELECT coalesce(octet_length(k.response_bytes), 0) + coalesce(octet_length(k.response_metadata), 0)
                   + coalesce(octet_length(k.error_bytes), 0) AS size
            FROM tenant.idempotency_keys k
            WHERE k.user_id = p_user AND k.expires > clock_timestamp()
            LIMIT p_most
        ) r;
    END IF;
END
$usage$;

REVOKE EXECUTE ON FUNCTION tenant.idempotency_finds_users(), tenant.idempotency_usage(uuid, bigint, boolean) FROM PUBLIC;

SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('app.idempotency_search_path'), false);
