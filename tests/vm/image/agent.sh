#!/bin/sh
# The guest's end of the test harness: takes one command a line from a virtio port and answers in one line.
#
# A request is `<number> <user> <base64 of a shell script>`, the answer `<number> <exit code> <base64 of
# stdout> <base64 of stderr>`. Lines and base64 keep the channel text, so no byte that a command prints can
# be taken for an answer. Commands run side by side: a test may wait in one and look in another.
# It ends with the guest: nobody restarts it, and the harness takes `ready` as the sign of a (re)boot.
set -eu
port=/dev/virtio-ports/squash.agent
work=/run/squash-agent
mkdir -p "$work"
exec 3<>"$port"

answer() {
  # One write per line under a lock: two commands may end at the same time.
  # shellcheck disable=SC2016 # expands in the inner shell, which gets the values as arguments
  flock "$work/lock" sh -c 'printf "%s %s %s %s\n" "$1" "$2" "$(base64 -w0 <"$3")" "$(base64 -w0 <"$4")" >&3' \
    sh "$1" "$2" "$work/$1.out" "$work/$1.err"
  rm -f "$work/$1".*
}

run_one() {
  number=$1 user=$2
  printf '%s' "$3" | base64 -d >"$work/$number.sh"
  chmod 644 "$work/$number.sh"
  code=0
  if [ "$user" = root ]; then
    cd /root
    HOME=/root sh "$work/$number.sh" >"$work/$number.out" 2>"$work/$number.err" 3>&- </dev/null || code=$?
  else
    uid=$(id -u "$user")
    # The same surroundings that a lingering user's own processes have, without opening a login session.
    cd "/home/$user"
    env -i HOME="/home/$user" USER="$user" LOGNAME="$user" PATH="$PATH" XDG_RUNTIME_DIR="/run/user/$uid" \
      setpriv --reuid "$user" --regid "$user" --init-groups -- \
      sh "$work/$number.sh" >"$work/$number.out" 2>"$work/$number.err" 3>&- </dev/null || code=$?
  fi
  answer "$number" "$code"
}

# The line break ends an answer that a reset cut short.
printf '\nready %s\n' "$(cat /proc/sys/kernel/random/boot_id)" >&3
while read -r number user script <&3; do
  run_one "$number" "$user" "$script" &
done
