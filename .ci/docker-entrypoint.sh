#!/usr/bin/env bash
# Starts PostgreSQL in the image that .ci/postgres-image makes. Follows the conventions of the official image:
#
#   POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB   default to postgres, no password, the user's name
#   POSTGRES_HOST_AUTH_METHOD                       defaults to scram-sha-256
#   /docker-entrypoint-initdb.d/*.sql, *.sh         run once, on a fresh data directory
#   arguments                                       options for postgres, or a command to run instead
#
# Clients of the official image wait for two ready lines: on standard output, from the temporary server that initialises
# the data directory, and on standard error, from the final server. This script writes both.
set -euo pipefail

user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}
password=${POSTGRES_PASSWORD:-}
authentication=${POSTGRES_HOST_AUTH_METHOD:-scram-sha-256}

make_data_directory() {
  if [ -z "$password" ] && [ "$authentication" != trust ]; then
    echo "set POSTGRES_PASSWORD, or POSTGRES_HOST_AUTH_METHOD=trust" >&2
    exit 1
  fi
  initdb -D "$PGDATA" -U "$user" --pwfile=<(printf '%s\n' "$password") --no-sync -E UTF8 --locale=C.UTF-8 \
    --auth-local=trust --auth-host="$authentication"
  echo "host all all all $authentication" >>"$PGDATA/pg_hba.conf"
}

run_sql() {
  psql -v ON_ERROR_STOP=1 --no-psqlrc -U "$user" "$@"
}

# Creates the database and runs the scripts, with a temporary server that only this script can reach.
fill_data_directory() {
  pg_ctl -D "$PGDATA" -w -o "-c listen_addresses='' -c fsync=off" start
  if [ "$database" != postgres ]; then
    run_sql -d postgres -v name="$database" <<<'CREATE DATABASE :"name"'
  fi
  local script
  for script in /docker-entrypoint-initdb.d/*; do
    case $script in
      *.sql) run_sql -d "$database" -f "$script" ;;
      *.sh)
        # shellcheck disable=SC1090
        . "$script"
        ;;
    esac
  done
  pg_ctl -D "$PGDATA" -w -m fast stop
}

if [ $# = 0 ] || [ "${1#-}" != "$1" ]; then
  set -- postgres "$@"
fi

if [ "$1" = postgres ]; then
  if [ ! -s "$PGDATA/PG_VERSION" ]; then
    make_data_directory
    fill_data_directory
    echo 'PostgreSQL init process complete; ready for start up.'
  fi
  set -- "$@" -c "listen_addresses=*"
fi
exec "$@"
