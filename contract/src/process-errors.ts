/** What stands behind a refused command: the part of the catalogue that is about processes. */
export const processErrors = {
  exec_failed: {
    status: 500,
    retry: 'never',
    summary: 'The command could not be started',
    remedy: 'Start a program that is there, in a directory that is there',
  },
  user_not_found: {
    status: 404,
    retry: 'after-change',
    summary: 'The sandbox knows no user of this name',
    remedy: 'Take a name of its /etc/passwd, or numbers',
  },
  process_not_found: {
    status: 404,
    retry: 'never',
    summary: 'The sandbox has no process with this number or tag',
    remedy: 'List what there is: `squash ps --all`',
  },
  process_ended: {
    status: 409,
    retry: 'never',
    summary: 'The process has ended before it did what was waited for or asked of it',
    remedy: 'Look at how it ended, and start it again',
  },
  output_not_kept: {
    status: 409,
    retry: 'never',
    summary: 'The command was not started as a process of `/v1`, so its output can not be replayed',
    remedy: 'Read it where it was started, or in the log: `squash logs`',
  },
  stdin_closed: {
    status: 409,
    retry: 'never',
    summary: 'The process takes no input: it has none, or its end was sent',
    remedy: 'Start it with `stdin: true` or a `pty`, and send `eof` last',
  },
  stdin_blocked: {
    status: 503,
    retry: 'later',
    summary: 'The process does not read its input',
    remedy: 'Send what was not taken again when it reads; `detail` says how many bytes were taken',
  },
} as const;
