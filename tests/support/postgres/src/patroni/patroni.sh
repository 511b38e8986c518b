# Supervises private PostgreSQL servers under Patroni: runs them while standard input stays open, then removes all of it.
#
#   sh -c SCRIPT scratch-postgres NAME ETCD PATRONI HAPROXY NODES PARENT… -- OPTION…
#
# ETCD, PATRONI and HAPROXY are the programs; HAPROXY may be empty. The directory is NAME in the first PARENT where it can be created.
# The OPTIONs are options of etcd. Standard input begins with the files of the directory: "file PATH LINES" and its lines, in which
# @DIRECTORY@ is the directory; then "ready". Further lines are orders, each of which is answered with "done" or with an error:
#
#   start N   starts Patroni on node N, which starts its server
#   kill N    ends every process of node N, as a crash of its machine does
#   freeze N  stops every process of node N; thaw N lets them go on
#   hang N    stops the Patroni of node N alone; thaw N lets it go on
#   stall     stops what receives the log on all standbys; lose ends it, with what it has been sent and not received
#   front     starts HAProxy
#
# If etcd or HAProxy ends by itself, so does this. At the end, the last parts of the logs go to standard output; never more than a
# pipe holds, because the reader may be gone.

# Neither a terminal nor the end of the reader may end this script early.
trap '' HUP INT PIPE QUIT TERM
umask 077
exec 2>&1 3<&0 </dev/null

name=$1
etcd=$2
patroni=$3
haproxy=$4
nodes=$5
shift 5
directory=
while [ "$1" != -- ]; do
  if [ -z "$directory" ] && mkdir "$1/$name"; then
    directory=$1/$name
  fi
  shift
done
shift
[ -n "$directory" ] && cd "$directory" || exit 1

make() {
  while read -r word path lines <&3; do
    [ "$word" = file ] || break
    while [ "$lines" -gt 0 ]; do
      IFS= read -r line <&3 || return
      while :; do
        case $line in
          *@DIRECTORY@*) line=${line%%@DIRECTORY@*}$directory${line#*@DIRECTORY@} ;;
          *) break ;;
        esac
      done
      printf '%s\n' "$line" >>"$path"
      lines=$((lines - 1))
    done
  done
  [ "$word" = ready ]
}

# Carries out the orders, and ends etcd, and with it everything, when they end.
obey() {
  while read -r order node; do
    case $order in
      start) start "$node" && echo done >&4 || echo 'it cannot be started' >&4 ;;
      kill) kill_node "$node" && echo done >&4 || echo 'it does not end, or there is no ps to find its processes' >&4 ;;
      freeze) freeze "$node" && echo done >&4 || echo 'it does not run, or there is no ps to find its processes' >&4 ;;
      hang) hang "$node" && echo done >&4 || echo 'it does not run' >&4 ;;
      thaw) thaw "$node" && echo done >&4 || echo 'it was not frozen' >&4 ;;
      stall) stall && echo done >&4 || echo 'no standby receives anything' >&4 ;;
      lose) lose && echo done >&4 || echo 'no standby was stalled' >&4 ;;
      front) front && echo done >&4 ;;
    esac
  done
  : >stopping
  kill -s KILL "$running"
}

start() {
  "$patroni" "node$1.yml" >>"node$1.log" 2>&1 3<&- 4>&- &
  echo "$!" >"node$1.pid"
}

front() {
  {
    "$haproxy" -db -f haproxy.cfg >>haproxy.log 2>&1 3<&- 4>&- &
    echo "$!" >haproxy.pid
    wait "$!"
    [ -e stopping ] || kill -s KILL "$running"
  } 4>&- &
}

# Stops Patroni first, so that it starts nothing, and then the server, which starts no new processes then. Prints all of them.
stop_node() {
  set -- "$1" "$(cat "node$1.pid")" "$(postmaster "$1")"
  [ -n "$2" ] || return
  kill -s STOP "$2" $3
  echo "$2" $(children "$2") $3 ${3:+$(children "$3")}
}

kill_node() {
  processes=$(stop_node "$1") || return
  # A process that has just ended is not an error.
  kill -s KILL $processes
  rm -f "node$1.pid" "node$1.frozen"
  tries=500
  while alive $processes; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return
    sleep 0.02
  done
}

freeze() {
  processes=$(stop_node "$1") || return
  kill -s STOP $processes
  echo "$processes" >"node$1.frozen"
}

hang() {
  processes=$(cat "node$1.pid") && kill -s STOP "$processes" && echo "$processes" >"node$1.frozen"
}

thaw() {
  processes=$(cat "node$1.frozen") || return
  rm -f "node$1.frozen"
  # A process that a signal has ended meanwhile is not an error.
  kill -s CONT $processes
  :
}

stall() {
  receivers=$(for node in $(seq 0 $((nodes - 1))); do receiver "$(postmaster "$node")"; done)
  [ -n "$receivers" ] && kill -s STOP $receivers && echo $receivers >stalled
}

lose() {
  receivers=$(cat stalled) || return
  rm -f stalled
  # A process that has ended meanwhile is not an error.
  kill -s TERM $receivers
  kill -s CONT $receivers
  :
}

# The process that receives the log for a server.
receiver() {
  ps -A -ww -o ppid= -o pid= -o args= | while read -r parent process title; do
    case "$parent $title" in
      "$1 "*walreceiver*) echo "$process" ;;
    esac
  done
}

# The server process of a node; nothing if it does not run. The file outlives a server that was killed.
postmaster() {
  set -- "$1" "$(sed -n 1p "node$1/postmaster.pid")"
  case "$(ps -ww -o args= -p "${2:-0}")" in
    *"$directory/node$1"*) echo "$2" ;;
  esac
}

# The processes that a process has started.
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

# Ends everything that names the directory: also what Patroni has started, such as copies of a server.
end() {
  : >stopping
  for node in $(seq 0 $((nodes - 1))); do
    kill_node "$node"
  done
  tries=100
  while [ "$tries" -gt 0 ]; do
    left=$(ps -A -ww -o pid= -o args= | grep -F "$directory" | grep -v -F grep | while read -r process _; do
      [ "$process" = "$$" ] || echo "$process"
    done)
    [ -n "$left" ] || break
    kill -s KILL $left
    sleep 0.05
    tries=$((tries - 1))
  done
  [ ! -e haproxy.pid ] || kill -s KILL "$(cat haproxy.pid)"
}

# A server that was killed has left a block of shared memory.
free_memory() {
  for file in node*/postmaster.pid; do
    sed -n 7p "$file" | { read -r _ block && ipcrm -m "$block"; }
  done
}

if make >/dev/null 2>&1; then
  "$etcd" --data-dir "$directory/etcd" "$@" >etcd.log 2>&1 3<&- &
  running=$!
  obey 4>&1 <&3 >/dev/null 2>&1 &
  obeying=$!
  wait "$running" 2>/dev/null
  kill -s KILL "$obeying"
  end >/dev/null 2>&1
fi
for log in *.log; do
  echo "--- $log"
  tail -c 1500 "$log"
done
free_memory >/dev/null 2>&1
cd /
# Processes that were killed may still write for a moment.
rm -rf "$directory" 2>/dev/null || { sleep 1 && rm -rf "$directory"; }
