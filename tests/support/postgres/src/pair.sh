# Supervises two private PostgreSQL servers: runs them while standard input stays open, then removes all of it.
#
#   sh -c SCRIPT scratch-postgres BINARIES NAME PORT0 PORT1 PARENT… -- OPTION…
#
# BINARIES has PostgreSQL's programs. The directory is NAME in the first PARENT where it can be created. The OPTIONs are options of
# postgres. The first line of standard input is the password of the superuser, postgres. Further lines are orders, each of which is
# answered with "done" or with an error; N is 0 or 1, and M the other one, which runs:
#
#   make N      creates the data of server N
#   start N     starts it
#   kill N      ends all its processes at once
#   copy N M    makes N a standby of M, with a copy of its data; M has not been started yet
#   promote N   makes a standby a primary
#   rewind N M  makes N, which was killed, a standby of M, and undoes what M has not got from it
#
# At the end, the last part of the log goes to standard output; never more than a pipe holds, because the reader may be gone.

# Neither a terminal nor the end of the reader may end this script early.
trap '' HUP INT PIPE QUIT TERM
umask 077
exec 2>&1 3<&0 </dev/null

binaries=$1
name=$2
port0=$3
port1=$4
shift 4
directory=
while [ "$1" != -- ]; do
  if [ -z "$directory" ] && mkdir "$1/$name"; then
    directory=$1/$name
  fi
  shift
done
shift
[ -n "$directory" ] && cd "$directory" || exit 1

obey() {
  IFS= read -r PGPASSWORD || return
  export PGPASSWORD
  while read -r order node other; do
    case $order in
      make | start | kill | copy | promote | rewind)
        if "${order}_server" "$node" "$other" >>log 2>&1; then echo done >&4; else tail -n 1 log >&4; fi
        ;;
    esac
  done
}

port() {
  if [ "$1" = 0 ]; then echo "$port0"; else echo "$port1"; fi
}

make_server() {
  printf '%s\n' "$PGPASSWORD" >password &&
    "$binaries/initdb" -D "$directory/node$1" -U postgres --pwfile=password --auth=scram-sha-256 --data-checksums \
      -E UTF8 --locale=C --no-sync &&
    echo 'host replication postgres 127.0.0.1/32 scram-sha-256' >>"node$1/pg_hba.conf" &&
    # Also for the recovery by which pg_rewind begins, and which would remove what it reads next.
    echo 'wal_keep_size = 256MB' >>"node$1/postgresql.conf"
}

# With the options of this script, which are not in the data: a copy has another port.
start_server() {
  node=$1
  # shellcheck disable=SC2086
  eval "set -- $options"
  "$binaries/postgres" -D "$directory/node$node" -c "port=$(port "$node")" "$@" 3<&- 4>&- &
  echo "$!" >"node$node.pid"
  # It has its port when its file has a state.
  tries=6000
  while [ -z "$(sed -n 8p "node$node/postmaster.pid")" ]; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ] || ! alive "$(cat "node$node.pid")"; then
      why=$(grep 'could not create any' log | tail -n 1)
      echo "${why:-server $node did not start}"
      return 1
    fi
    sleep 0.02
  done
}

kill_server() {
  server=$(cat "node$1.pid") || return
  rm -f "node$1.pid"
  # A stopped server starts no new processes.
  kill -s STOP "$server"
  processes="$server $(children "$server")"
  kill -s KILL $processes
  tries=200
  while alive $processes; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return
    sleep 0.02
  done
}

# Not with pg_basebackup: some packages of PostgreSQL come without it.
copy_server() {
  cp -R "node$2" "node$1" &&
    echo "primary_conninfo = 'host=127.0.0.1 port=$(port "$2") user=postgres password=$PGPASSWORD'" >>"node$1/postgresql.conf" &&
    : >"node$1/standby.signal"
}

promote_server() {
  "$binaries/pg_ctl" -D "$directory/node$1" -w promote
}

rewind_server() {
  source="host=127.0.0.1 port=$(port "$2") user=postgres dbname=postgres password=$PGPASSWORD"
  "$binaries/psql" -X -q -c CHECKPOINT "$source" &&
    "$binaries/pg_rewind" -D "$directory/node$1" --source-server="$source" -R --no-sync
}

# The processes that a server has started.
children() {
  ps -A -o ppid= -o pid= | while read -r parent process; do
    [ "$parent" != "$1" ] || echo "$process"
  done
}

# Whether one of these processes exists. An ended process stays visible, as Z, until its parent has waited for it.
alive() {
  for process in "$@"; do
    case $(ps -o stat= -p "$process") in
      '' | Z*) ;;
      *) return 0 ;;
    esac
  done
  return 1
}

# The options, quoted for eval: functions have arguments of their own.
options=
for option in "$@"; do
  options="$options '$option'"
done
: >log
obey 4>&1 <&3 >/dev/null 2>&1
for node in 0 1; do
  kill_server "$node"
  # A server that was killed has left a block of shared memory.
  sed -n 7p "node$node/postmaster.pid" | { read -r _ block && ipcrm -m "$block"; }
done >/dev/null 2>&1
tail -c 4000 log
cd /
rm -rf "$directory" 2>/dev/null || { sleep 1 && rm -rf "$directory"; }
