#!/bin/sh
# The guest's end of the test harness: takes one command a line from a virtio port and answers in one line.
#
# A request is `<number> <user> <base64 of a shell script>`, the answer `<number> <exit code> <base64 of
# stdout> <base64 of stderr>`. Lines and base64 keep the channel text, so no byte that a command prints can
# be taken for an answer. Commands run side by side: a test may wait in one and look in another.
# It ends with the guest: nobody restarts it, and the harness takes `ready` as the sign of a (re)boot.
# Programs of its own are busybox, which is static: a dynamic one takes the emulator twice as long to start.
set -eu
port=/dev/virtio-ports/squash.agent
work=/run/squash-agent
mkdir -p "$work"
exec 3<>"$port"

answer() {
  out=$(busybox base64 -w0 "$work/$1.out") err=$(busybox base64 -w0 "$work/$1.err")
  # One after the other: two commands may end at the same time.
  until busybox mkdir "$work/lock" 2>&-; do busybox usleep 5000; done
  printf '%s %s %s %s\n' "$1" "$2" "$out" "$err" >&3
  busybox rm -rf "$work/lock" "$work/$1".*
}

run_one() {
  number=$1 user=$2
  printf '%s' "$3" | busybox base64 -d >"$work/$number.sh"
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
