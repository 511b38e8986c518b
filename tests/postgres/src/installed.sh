# Looks after one private PostgreSQL server: makes it, runs it while standard input stays open, removes all of it.
#
#   sh -c SCRIPT scratch-postgres BINARIES NAME PARENT… -- OPTION…
#
# BINARIES has initdb and postgres. The server's directory is NAME in the first PARENT where one can be made. The
# OPTIONs are postgres's. The first line of standard input is the password of the superuser, postgres. At the end,
# standard output gets the last of the log; never more than a pipe takes, because nobody may be left to read it.

# Neither a terminal nor the reader's end may end this script before it is done.
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
    "$binaries/initdb" -D "$directory/data" -U postgres --pwfile="$directory/password" --auth=scram-sha-256 \
      -E UTF8 --locale=C --no-sync >"$log" 2>&1 3<&-
}

# Stops the server when standard input ends. Signals are repeated: one that comes before postgres has its handlers is
# lost.
stop_in_time() {
  while read -r _; do :; done
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
  "$binaries/postgres" -D "$directory/data" "$@" >>"$log" 2>&1 3<&- &
  server=$!
  stop_in_time <&3 >/dev/null 2>&1 &
  stopper=$!
  wait "$server"
  kill -s KILL "$stopper"
fi
tail -c 4000 "$log"
# A server stopped by force may have processes that still write for a moment.
rm -rf "$directory" 2>/dev/null || { sleep 1 && rm -rf "$directory"; }
