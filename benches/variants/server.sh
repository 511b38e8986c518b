# A private PostgreSQL server that keeps what it commits: PostgreSQL's defaults, fsync and synchronous commit among
# them, with 256 MB of shared buffers. To be sourced.
#
# start_server   starts it, and sets PGHOST, PGUSER and PGDATABASE to lead there, and $binaries
# stop_server    stops it, and removes all of it

# The newest of Debian's, else what pg_config is for.
find_binaries() {
  local directory
  for directory in $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV) "$(pg_config --bindir 2>/dev/null)"; do
    if [ -x "$directory/initdb" ] && [ -x "$directory/pgbench" ]; then
      echo "$directory"
      return
    fi
  done
  echo "variants: no directory has both initdb and pgbench; install PostgreSQL's server binaries" >&2
  return 1
}

# PostgreSQL refuses to run as root.
as_server() {
  if [ "$(id -u)" = 0 ]; then
    setpriv --reuid "$account" --regid "$(id -g "$account")" --clear-groups "$@"
  else
    "$@"
  fi
}

start_server() {
  binaries=$(find_binaries)
  account=$(id -un postgres 2>/dev/null || echo nobody)
  server=$(mktemp -d "${TMPDIR:-/tmp}/variants-XXXXXX")
  [ "$(id -u)" != 0 ] || chown "$account" "$server"
  as_server "$binaries/initdb" -D "$server/data" -U postgres --auth=trust -E UTF8 --locale=C >"$server/initdb.log" 2>&1
  # Reached through a socket in this directory, which is closed to others, and in no other way.
  as_server "$binaries/pg_ctl" -D "$server/data" -l "$server/log" -w -s \
    -o "-c listen_addresses='' -c unix_socket_directories='$server' -c shared_buffers=256MB" start
  export PGHOST=$server PGUSER=postgres PGDATABASE=postgres PGOPTIONS=
}

stop_server() {
  [ -n "${server:-}" ] || return 0
  as_server "$binaries/pg_ctl" -D "$server/data" -m immediate -s stop || true
  rm -rf "$server"
}
