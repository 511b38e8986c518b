# Supervises one private PostgreSQL server: creates it, runs it while standard input stays open, then removes all of it.
#
#   sh -c SCRIPT scratch-postgres BINARIES NAME PARENT… -- OPTION…
#
# BINARIES has initdb and postgres. The server's directory is NAME in the first PARENT where it can be created. The
# OPTIONs are options of postgres. The first line of standard input is the password of the superuser, postgres. Further
# lines: "kill" ends every process of the server, and is answered with "killed" or with an error; "restart" starts the
# server again; "upgrade BINARIES" moves its data to the version of other binaries and starts that, and is answered with
# "upgraded" or with an error, after which the server does not run. At the end, the last part of the log goes to standard
# output; never more than a pipe holds, because the reader may be gone.

# Neither a terminal nor the end of the reader may end this script early.
trap '' HUP INT PIPE QUIT TERM
umask 077
exec 2>&1 3<&0 </dev/null

binaries=$1
name=$2
shift 2
directory=
while [ "$1" != -- ]; do
  if [ -z "$directory" ] && mkdir "$1/$name"; then
    directory=$1/$name
  fi
  shift
done
shift
[ -n "$directory" ] || exit 1
log=$directory/log

make() {
  IFS= read -r password <&3 && printf '%s\n' "$password" >"$directory/password" &&
    printf '%s\n' "$binaries" >"$directory/binaries" && create "$binaries" "$directory/data"
}

# Creates the data directory $2 with the binaries in $1, and further options of initdb.
create() {
  binaries=$1 data=$2
  shift 2
  "$binaries/initdb" -D "$data" -U postgres --pwfile="$directory/password" --auth=scram-sha-256 -E UTF8 --locale=C --no-sync "$@" \
    </dev/null >>"$log" 2>&1 3<&-
}

# Runs the server until it ends, and again after each kill that is followed by a restart, and after each upgrade.
run() {
  while :; do
    "$(cat "$directory/binaries")/postgres" -D "$directory/data" "$@" >>"$log" 2>&1 3<&- &
    server=$!
    echo "$server" >"$directory/server"
    # The code that stops the server may have looked for it a moment too early.
    if [ -e "$directory/stopping" ]; then stop & fi
    wait "$server"
    rm -f "$directory/server"
    [ -e "$directory/killed" ] || return
    while [ -e "$directory/killed" ]; do sleep 0.02; done
    [ ! -e "$directory/stopping" ] || return
  done
}

# Carries out the further lines of standard input, and stops the server when they end.
obey() {
  while read -r order; do
    case $order in
      kill) kill_all && echo killed >&4 || echo 'it does not run, or there is no ps to find its processes' >&4 ;;
      restart) rm -f "$directory/killed" ;;
      upgrade\ *) upgrade "${order#upgrade }" 4>&- && echo upgraded >&4 || tail -n 20 "$log" | paste -s -d ' ' >&4 ;;
    esac
  done
  : >"$directory/stopping"
  rm -f "$directory/killed"
  stop
}

# Kills the server and its children, and waits until they are gone: a new server does not start beside one of them.
kill_all() {
  command -v ps && server=$(cat "$directory/server") && : >"$directory/killed" || return
  # A stopped server starts no new processes.
  kill -s STOP "$server" && children=$(children) || return
  # A process that has just ended is not an error.
  kill -s KILL "$server" $children
  gone "$server" $children
}

# Waits until these processes are gone.
gone() {
  tries=500
  while alive "$@"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return
    sleep 0.02
  done
}

# Moves the data to the version of the binaries in $1. The old data stays beside it.
upgrade() {
  command -v ps && server=$(cat "$directory/server") && : >"$directory/killed" && kill -s INT "$server" && gone "$server" || return
  # From version 18 on, initdb switches checksums of pages on by itself, and pg_upgrade refuses to change them.
  checksums=
  if "$1/initdb" --help | grep -q -e --no-data-checksums; then checksums=--no-data-checksums; fi
  create "$1" "$directory/upgraded" $checksums && (
    cd "$directory" && PGPASSWORD=$(cat password) && export PGPASSWORD &&
      "$1/pg_upgrade" -U postgres -b "$(cat binaries)" -B "$1" -d data -D upgraded --socketdir "$directory"
  ) </dev/null >>"$log" 2>&1 3<&- &&
    mv "$directory/data" "$directory/old" && mv "$directory/upgraded" "$directory/data" &&
    printf '%s\n' "$1" >"$directory/binaries" && rm -f "$directory/killed"
}

# The processes that the server has started.
children() {
  ps -A -o ppid= -o pid= | while read -r parent process; do
    [ "$parent" != "$server" ] || echo "$process"
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

# Stops the server. Repeats signals, because a signal is lost if postgres has not installed its handlers yet.
stop() {
  server=$(cat "$directory/server") || return
  for signal in INT QUIT KILL; do # fast, immediate, by force
    tries=50
    while [ "$tries" -gt 0 ]; do
      kill -s "$signal" "$server" || return
      sleep 0.1
      tries=$((tries - 1))
    done
  done
}

if make; then
  obey 4>&1 <&3 >/dev/null 2>&1 &
  obeying=$!
  run "$@" 2>/dev/null
  kill -s KILL "$obeying"
fi
tail -c 4000 "$log"
# A server that was killed has left a block of shared memory.
if [ -f "$directory/data/postmaster.pid" ]; then
  sed -n 7p "$directory/data/postmaster.pid" | { read -r _ block && ipcrm -m "$block"; } >/dev/null 2>&1
fi
# A server that was killed may have processes that still write for a moment.
rm -rf "$directory" 2>/dev/null || { sleep 1 && rm -rf "$directory"; }
