/** How Squash calls git in a box. */

/** As the box's own user has it, but for what would run beside it. */
export const gitWords = [
  'git',
  ...[
    'core.hooksPath=/dev/null',
    'core.fsmonitor=false',
    'core.pager=cat',
    'commit.gpgSign=false',
    'gc.auto=0',
    'maintenance.auto=false',
  ].flatMap((each) => ['-c', each]),
];

/** Of a process as the API tells of it: none that anybody has asked for. */
export function isOwnGit(command: string): boolean {
  return command.startsWith(`${gitWords.join(' ')} `);
}
