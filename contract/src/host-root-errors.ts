/** The rows of the error catalogue (errors.ts) about sandboxes whose root is the host's file system. */
export const hostRootErrors = {
  host_root_unavailable: {
    status: 409,
    retry: 'never',
    summary: 'This daemon gives no sandbox the host’s file system as its root',
    remedy: 'Start a daemon as an ordinary user with SQUASH_HOST_ROOT=1; `detail` says what is missing',
  },
  host_path_refused: {
    status: 403,
    retry: 'never',
    summary: 'A path of the host may not be opened to a sandbox',
    remedy: 'Leave the path that `detail` names out of `from.host.paths`, or give it the level "hidden"',
  },
  host_root_unsupported: {
    status: 409,
    retry: 'never',
    summary: 'This can not be done with a sandbox whose root is the host’s file system',
    remedy: 'Take its files out by the operations on files, or make a sandbox from layers',
  },
} as const;
