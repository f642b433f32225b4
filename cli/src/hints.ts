/**
 * What to do about a refusal, in words of the command line: the API's sentences are for every client and name no command.
 * Added to the line that people read, never to `--json`.
 */
const hints: Readonly<Record<string, string>> = {
  approval_not_found: 'try: squash approvals ls',
  ceiling_exceeded: 'squash doctor --config shows the ceilings',
  disk_full: 'squash doctor tells what is free and what takes it',
  exec_limit: 'squash ps <id> shows what runs',
  forbidden: 'squash whoami tells what your key may do',
  host_full: 'squash top shows what uses the machine',
  interpreter_missing:
    'squash module build interpreter makes the layer, squash activate adds it to a sandbox',
  job_not_found: 'try: squash jobs <id>',
  key_not_found: 'try: squash keys ls',
  limits_unenforceable: 'squash doctor says how to mend it',
  module_exists: '--replace replaces it',
  module_in_use: 'squash ls shows by which',
  module_not_found: 'squash module ls shows what there is, squash module build what can be made',
  port_unreachable: 'squash ports <id> shows what listens',
  process_not_found: 'try: squash ps --all <id>',
  quota_exceeded: 'squash whoami shows the quota and what is used',
  sandbox_exists: 'squash create without an id makes one',
  sandbox_not_found: 'try: squash ls',
  secret_not_found: 'try: squash secret ls',
  sandbox_paused: 'squash resume <id> lets it go on',
  snapshot_exists: 'try: squash snapshot rm <id> <label>',
  snapshot_not_found: 'try: squash snapshots ls <id>',
  token_required:
    'this command line sends SQUASH_AUTH_TOKEN, or --token; a daemon of your own needs a port of its own: SQUASH_PORT=8081',
  volume_not_found: 'try: squash volume ls',
  action_not_found: 'try: squash group held --state done',
  chat_not_found: 'try: squash chat ls',
  group_not_found: 'try: squash group ls',
  schedule_not_found: 'try: squash schedule ls',
  tier_forbids: 'squash tier ls shows what each allows',
  tier_not_found: 'try: squash tier ls',
  webhook_not_found: 'try: squash webhook ls',
  unauthorized: 'set SQUASH_AUTH_TOKEN, or give --token',
};

export function hinted(code: string, message: string): string {
  const hint = Object.hasOwn(hints, code) ? hints[code] : undefined;
  // What names a command itself knows more of the place.
  return hint === undefined || message.includes('; try: ') ? message : `${message}; ${hint}`;
}
