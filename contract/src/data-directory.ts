/**
 * Which directory holds a daemon's state, as daemon and CLI must both answer it: the CLI finds the daemon's
 * Unix socket by this rule. No I/O here: the caller brings the facts.
 *
 * A newcomer would look for `/data` only, or create it: it is used where the machine's owner made it (the
 * original's containers mount a volume there) and never made by Squash.
 */
export interface DataDirectoryFacts {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Effective user id. */
  readonly uid: number;
  /** The user's home from the password database, not from `HOME`, which `sudo` may leave pointing elsewhere. */
  readonly home: string;
  /** Answers for existing directories only. */
  readonly isWritableDirectory: (path: string) => boolean;
}

export interface DataDirectory {
  /** As the source gives it: a relative path is relative to the caller's working directory. */
  readonly path: string;
  readonly source: 'SQUASH_DATA' | 'SQUASH_DATA_DIR' | 'default';
}

export function dataDirectory(facts: DataDirectoryFacts): DataDirectory {
  for (const source of ['SQUASH_DATA', 'SQUASH_DATA_DIR'] as const) {
    const path = facts.env[source];
    if (path !== undefined && path !== '') return { path, source };
  }
  if (facts.isWritableDirectory('/data')) return { path: '/data', source: 'default' };
  if (facts.uid === 0) return { path: '/var/lib/squash', source: 'default' };
  const xdg = facts.env['XDG_DATA_HOME'];
  // The XDG specification says that a relative value is to be ignored.
  const base = xdg?.startsWith('/') ? xdg : `${facts.home}/.local/share`;
  return { path: `${base}/squash`, source: 'default' };
}

/** The daemon's API socket, relative to the data directory. */
export const apiSocketPath = 'run/api.sock';
/** Longest path a Unix socket address holds; longer ones are reached through `/proc/self/fd/<directory>/`. */
export const socketPathBytesMax = 107;
/** Where the daemon listens for TCP unless configured otherwise. */
export const apiPortDefault = 8080;
