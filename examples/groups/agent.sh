# The stand-in for a model: it reads the run's prompt, answers by rule, and asks for what it may not do by itself. Runs in the sandbox, as
# uid 1000, with what a POSIX shell has and curl or wget.

prompt=$(cat)

# ask ID TEXT: says TEXT in the other group's chat, if its tier or a person lets it.
ask() {
  printf '{"id":"%s","action":"message.send","chat":"%s","text":"%s"}' "$1" "$OTHERS" "$2" >/tmp/act.json
  # wget prints nothing of a refusal: what became of it is then asked for.
  { curl -s -d @/tmp/act.json "$SQUASH_CHANNEL/actions" ||
    wget -q -O - --post-file /tmp/act.json "$SQUASH_CHANNEL/actions" ||
    wget -q -O - "$SQUASH_CHANNEL/actions/$1"; } 2>/tmp/err |
    sed 's/.*"state":"\([a-z]*\)","rule":"\([^"]*\)".*/asked: \1 (\2)/'
}

case $prompt in
*'tell the others'*) ask "tell-$SQUASH_RUN" 'dinner is ready' ;;
*'what is new'*) echo "the news of today: $(wc -l <notes) messages so far" ;;
*) echo 'I have noted it' ;;
esac
# The group's folder outlives the run.
printf '%s\n' "$prompt" | grep '^<message ' >>notes
