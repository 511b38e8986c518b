-- Inserts copies of the record of one real call under new keys, with the times of calls made over 23 hours: rows $1 to $2 of $3,
-- the first of which expires at $4. Every hundredth belongs to the user who calls with its key, $5 if that is even and $6 if
-- it is odd; the others belong to 10,000 users.
INSERT INTO tenant.idempotency_keys
    (id, idempotency_key, user_id, token, procedure, request_hash, response_bytes, response_metadata, project_id, created, expires)
SELECT
    -- Ascending, as UUIDv7 are.
    encode(
        overlay(
            uuid_send(row.key)
            PLACING substring(int8send((1000 * date_part('epoch', row.expires))::bigint) FROM 3)
            FROM 1 FOR 6
        ),
        'hex'
    )::uuid,
    row.key,
    CASE
        WHEN row.n % 100 <> 0 THEN ('00000000-0000-7000-8000-' || lpad((row.n % 10000)::text, 12, '0'))::uuid
        WHEN get_bit(uuid_send(row.key), 120) = 0 THEN $5
        ELSE $6
    END,
    row.key,
    recorded.procedure, recorded.request_hash, recorded.response_bytes, recorded.response_metadata, recorded.project_id,
    row.expires - interval '24 hours',
    row.expires
FROM (
    SELECT n, gen_random_uuid() AS key, $4 + interval '23 hours' * (n::double precision / $3) AS expires
    FROM generate_series($1::bigint, $2::bigint) n
) row
CROSS JOIN benchmarks.recorded
