# Supervises one container: removes it when standard input ends, unless it is gone already.
#
#   sh -c SCRIPT scratch-postgres NAME
#
# Lines of standard input: "started" once the container runs, "gone" once it is removed.

# Neither a terminal nor the end of the reader may end this script early.
trap '' HUP INT PIPE QUIT TERM
exec >/dev/null 2>&1

name=$1
state=starting
while read -r line; do state=$line; done
[ "$state" != gone ] || exit 0

# The engine that the container was started on; the command line may prefer another.
for socket in /var/run/docker.sock "$XDG_RUNTIME_DIR/.docker/run/docker.sock" \
  "$HOME/.docker/run/docker.sock" "$HOME/.docker/desktop/docker.sock"; do
  if [ -z "$DOCKER_HOST" ] && [ -S "$socket" ]; then
    DOCKER_HOST=unix://$socket
    export DOCKER_HOST
  fi
done

remove() {
  if command -v docker; then
    docker rm -f -v "$name"
  elif command -v podman; then
    podman rm -f -v "$name"
    podman --url "$DOCKER_HOST" rm -f -v "$name"
  else
    curl --unix-socket "${DOCKER_HOST#unix://}" -X DELETE "http://localhost/containers/$name?force=true&v=true"
  fi
}

remove
# If the owner ended early, the engine may still be creating the container.
if [ "$state" = starting ]; then
  for pause in 1 2 4; do
    sleep "$pause"
    remove
  done
fi
