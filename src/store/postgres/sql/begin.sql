SELECT state, recorded_procedure, recorded_hash, response, metadata, error, resource, status, status_error,
       (extract(epoch FROM lease_left) * 1000)::int8 AS lease_left_ms,
       floor(extract(epoch FROM expires_in) * 1000)::int8 AS expires_in_ms
FROM tenant.idempotency_begin($1, $2, $3, $4, $5, make_interval(secs => $6), $7, $8)
