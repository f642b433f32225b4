#!/usr/bin/env bash
# Two chats of different trust, an approval and a scheduled task, on the daemon that `squash` talks to. Everything it makes is called
# example-…, and gone at its end.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")

say() { printf '\n== %s\n' "$1"; }

# wait_for WHAT COMMAND...: two minutes at most.
wait_for() {
  local what=$1 left=240
  shift
  until "$@"; do
    if ((left-- == 0)); then
      echo "run.sh: waited two minutes in vain: $what" >&2
      return 1
    fi
    sleep 0.5
  done
}

rested() { ! squash group ls | grep '^example-' | awk '$3 + $4 > 0' | grep -q .; }

clean() {
  squash schedule rm example-family news 2>/dev/null || true
  wait_for 'the groups to rest' rested || true
  for name in example-family example-friends; do
    squash chat rm "$name" 2>/dev/null || true
    squash group rm "$name" 2>/dev/null || true
  done
}
trap clean EXIT

say 'two groups: what family does in chats of others a person is asked for, what friends do there is refused'
agent=$(cat "$here/agent.sh")
squash group create example-family --tier trusted --env OTHERS=example-friends -- sh -c "$agent"
squash chat create example-family example-family
squash group create example-friends --tier untrusted --env OTHERS=example-family -- sh -c "$agent"
squash chat create example-friends example-friends --trigger @agent

say 'bob is only read along, then he speaks to the agent, which may not speak to the family'
squash chat message example-friends 'the sun shines' --sender bob
squash chat message example-friends '@agent tell the others' --sender bob

say 'alice has her agent tell the others: that waits for a person'
squash chat message example-family 'tell the others' --sender alice
asked() { squash group held --group example-family | grep -q tell-; }
wait_for 'the question' asked
squash group held --group example-family
number=$(squash group held --group example-family | awk '/tell-/ { print $1 }')
squash group decide "$number" allow --reason 'they are hungry'

say 'a task that comes by itself'
squash schedule create example-family news 'what is new?' --every 2
told() { squash chat read example-family | grep -q 'the news of today'; }
wait_for 'the news' told
squash schedule runs example-family news

say 'what was said'
wait_for 'the groups to rest' rested
squash chat read example-family
squash chat read example-friends
