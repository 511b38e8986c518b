# Supervises one private PgBouncer: runs it while standard input stays open, then removes all of it.
#
#   sh -c SCRIPT scratch-postgres PROGRAM NAME PARENT… -- LINE…
#
# PROGRAM is pgbouncer. Its directory is NAME in the first PARENT where the directory can be created and PgBouncer can
# start. The LINEs are its configuration, whose `auth_file` is users.txt. The first line of standard input is the only
# line of that file. At the end, the last part of the log goes to standard output; never more than a pipe holds, because
# the reader may be gone.

# Neither a terminal nor the end of the reader may end this script early.
trap '' HUP INT PIPE QUIT TERM
umask 077
exec 2>&1 3<&0 </dev/null

program=$1
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

configure() {
  IFS= read -r user <&3 && printf '%s\n' "$user" >"$directory/users.txt" &&
    printf '%s\n' "$@" >"$directory/pgbouncer.ini"
}

# Kills it when standard input ends: it has nothing to save, and the signal that ends it at once depends on its version.
stop_in_time() {
  while read -r _; do :; done
  kill -s KILL "$bouncer"
}

if configure "$@"; then
  (cd "$directory" && exec "$program" "$directory/pgbouncer.ini" >"$log" 2>&1 3<&-) &
  bouncer=$!
  stop_in_time <&3 >/dev/null 2>&1 &
  stopper=$!
  wait "$bouncer"
  kill -s KILL "$stopper"
fi
tail -c 4000 "$log"
rm -rf "$directory"
