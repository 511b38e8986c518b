# Supervises one private OpenBao: runs it while standard input stays open, then removes all of it.
#
#   sh -c SCRIPT NAME PARENT ARGUMENT…
#
# The server's directory is a new one in PARENT, which each line of standard input is answered with.

# Neither a terminal nor the end of the reader may end this script early.
trap '' HUP INT PIPE QUIT TERM
umask 077
cd /

directory=$(mktemp -d "$1/scratch-openbao-XXXXXXXX") || exit 1
shift
mkdir "$directory/certificates"
HOME=$directory bao server -dev -dev-no-store-token -dev-tls-cert-dir="$directory/certificates" "$@" >"$directory/log" 2>&1 </dev/null &
server=$!
while read -r _; do
  echo "$directory"
done
kill -s KILL "$server" 2>/dev/null
wait "$server"
rm -rf "$directory"
