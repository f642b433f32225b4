/**
 * What to do about a refusal, in words of the command line: the API's sentences are for every client and name no command.
 * Added to the line that people read, never to `--json`.
 */
const hints: Readonly<Record<string, string>> = {
  job_not_found: 'try: squash jobs <id>',
  key_not_found: 'try: squash keys ls',
  module_exists: '--replace replaces it',
  module_in_use: 'squash ls shows by which',
  module_not_found: 'try: squash module ls',
  sandbox_not_found: 'try: squash ls',
  secret_not_found: 'try: squash secret ls',
  sandbox_paused: 'squash resume <id> lets it go on',
  snapshot_not_found: 'try: squash snapshots ls <id>',
  token_required:
    'this command line sends SQUASH_AUTH_TOKEN, or --token; a daemon of your own needs a port of its own: SQUASH_PORT=8081',
  volume_not_found: 'try: squash volume ls',
  webhook_not_found: 'try: squash webhook ls',
  unauthorized: 'set SQUASH_AUTH_TOKEN, or give --token',
};

export function hinted(code: string, message: string): string {
  const hint = Object.hasOwn(hints, code) ? hints[code] : undefined;
  return hint === undefined ? message : `${message}; ${hint}`;
}
