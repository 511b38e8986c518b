# Runs a private NATS server while standard input stays open, then removes all of it.
#
#   sh -c SCRIPT NAME PROGRAM PORT

# Neither a terminal nor the end of the reader may end this script early.
trap '' HUP INT PIPE QUIT TERM
umask 077

directory=$(mktemp -d) || exit 1
"$1" --addr 127.0.0.1 --port "$2" --jetstream --store_dir "$directory" >"$directory/log" 2>&1 </dev/null &
read -r _
kill -s KILL "$!"
wait
rm -rf "$directory"
