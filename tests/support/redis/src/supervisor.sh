# Supervises one private Redis server: runs it while standard input stays open, then removes all of it.
#
#   sh -c SCRIPT NAME PARENT CONFIGURATION PROGRAM ARGUMENT…
#
# The server's directory is a new one in PARENT. CONFIGURATION is the text of its configuration file. Each line of standard input is an
# order, and is answered with one line: "kill" and "start" the server, "pause" and "resume" it, or print the end of its "log".

# Neither a terminal nor the end of the reader may end this script early.
trap '' HUP INT PIPE QUIT TERM
umask 077
cd /

directory=$(mktemp -d "$1/scratch-redis-XXXXXXXX") || exit 1
printf '%s\ndir %s\n' "$2" "$directory" >"$directory/redis.conf"
program=$3
shift 3

start() {
  "$program" "$directory/redis.conf" "$@" >>"$directory/log" 2>&1 </dev/null &
  server=$!
}

start "$@"
while read -r order; do
  case $order in
    kill)
      kill -s KILL "$server"
      wait "$server"
      ;;
    start) start "$@" ;;
    pause) kill -s STOP "$server" ;;
    resume) kill -s CONT "$server" ;;
    log) tail -n 5 "$directory/log" | tr '\n' ' ' ;;
  esac 2>/dev/null
  echo done
done
kill -s KILL "$server" 2>/dev/null
wait "$server"
rm -rf "$directory"
