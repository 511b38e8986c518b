# What a duplicate meets while the first call's transaction is open. To be sourced; needs a server with the world in it.

# For psql, what the scripts get from pgbench. One key, of one user.
duplicate_key="'30000000-0000-4000-8000-000000000000'"
duplicate_user="'10000000-0000-0001-1000-000000000001'"

# The statements that open each transaction.
opening() {
  echo "SET ROLE variants_api; SET app.current_user_id = $duplicate_user; BEGIN;"
  case $1 in
    row) echo "$(reserving) RETURNING 'acquired';" ;;
    functions)
      echo "SELECT state FROM variants.begin($duplicate_user, $duplicate_key, gen_random_uuid(), '/a/b', '1');"
      ;;
  esac
}

# A reservation; for FUN-15's, with a commit of its own.
reserving() {
  echo "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
        VALUES ($duplicate_key, $duplicate_user, '/a/b', '', now() + interval '24 hours')
        ON CONFLICT (idempotency_key, user_id) DO NOTHING"
}

fun15() {
  echo "SET ROLE variants_api; SET app.current_user_id = $duplicate_user; $(reserving) RETURNING 'acquired';"
}

recording() {
  case $1 in
    row) echo "UPDATE tenant.idempotency_keys SET response_bytes = '' WHERE idempotency_key = $duplicate_key;" ;;
    functions) echo "SELECT variants.commit($duplicate_user, $duplicate_key, '/a/b', '', '', '1 hour', NULL, NULL);" ;;
  esac
  echo "COMMIT;"
}

# What SQL on standard input answers, in a word or two; whatever takes a second waits.
answer() {
  local said
  said=$({ echo "SET statement_timeout = '1s';"; cat; } | psql -X -q -A -t 2>&1) || true
  case $said in
    *'statement timeout'*) echo 'waits, with a connection' ;;
    '') echo 'refused at once' ;;
    in_flight | recorded*) echo 'refused at once' ;;
    acquired) echo 'acquires it too' ;;
    *) echo "$said" | head -n 1 ;;
  esac
}

# What a duplicate, whose SQL is on standard input, meets while the transaction of a variant is open; then what becomes
# of that transaction.
while_open() {
  local variant=$1 met line
  coproc FIRST { psql -X -q -A -t 2>&1; }
  { opening "$variant"; echo '\echo ready'; } >&"${FIRST[1]}"
  while read -r line <&"${FIRST[0]}" && [ "$line" != ready ]; do :; done
  met=$(answer)
  { recording "$variant"; echo '\echo done'; } >&"${FIRST[1]}"
  local outcome='commits'
  while read -r line <&"${FIRST[0]}" && [ "$line" != done ]; do
    case $line in *ERROR*) outcome='rolls back' ;; esac
  done
  echo '\q' >&"${FIRST[1]}"
  wait "$FIRST_PID" 2>/dev/null || true
  psql -X -q -c "DELETE FROM tenant.idempotency_keys WHERE idempotency_key = $duplicate_key"
  echo "$met; the first $outcome"
}

# Beside a reservation that a FUN-15 server has committed.
beside_fun15() {
  local met
  fun15 | psql -X -q -A -t >/dev/null
  met=$(opening "$1" | answer)
  psql -X -q -c "DELETE FROM tenant.idempotency_keys WHERE idempotency_key = $duplicate_key"
  echo "$met"
}

duplicates_table() {
  local variant
  echo '| variant | while open: a duplicate | while open: FUN-15 reserves | begins after FUN-15 has reserved |'
  echo '|---|---|---|---|'
  for variant in row functions; do
    printf '| `%s` | %s | %s | %s |\n' "$variant" "$(opening "$variant" | while_open "$variant")" \
      "$(fun15 | while_open "$variant")" "$(beside_fun15 "$variant")"
  done
}
