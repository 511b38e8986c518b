# Looks after one private PgBouncer: runs it while standard input stays open, removes all of it.
#
#   sh -c SCRIPT scratch-postgres PROGRAM NAME PARENT… -- LINE…
#
# PROGRAM is pgbouncer. Its directory is NAME in the first PARENT where one can be made, and where it is started. The
# LINEs are its configuration, whose `auth_file` is users.txt. The first line of standard input is the one line of that
# file. At the end, standard output gets the last of the log; never more than a pipe takes, because nobody may be left
# to read it.

# Neither a terminal nor the reader's end may end this script before it is done.
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

# By force, when standard input ends: it has nothing to save, and which signal ends it at once depends on its version.
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
