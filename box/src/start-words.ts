/**
 * How the box daemon was started last, for `squash-call`, which starts it the same way next time before there is a command line
 * (native/call/start.h has the form). A shortcut: where it can't be written, or does not fit any more, the command line starts the daemon.
 */
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectDir } from '@squash/base/programs';

export interface StartWords {
  /** Node, and the command line's program. */
  readonly caller: readonly [node: string, program: string];
  /** The caller's. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Of daemons that have boxes as well, and are asked first. */
  readonly sockets: readonly string[];
  /** The program is their first. */
  readonly words: readonly string[];
  /** The daemon's. */
  readonly daemonEnv: Readonly<Record<string, string>>;
}

/** Where any of them changes, the next start may have other words. */
const sources = [
  'package.json',
  'base/src/daemon-command.ts',
  'base/src/programs.ts',
  'box/src/daemon.ts',
  'box/src/start-words.ts',
];

/** `counts` of native/call/start.c. */
const counts = /^(?:(?:PATH|LANG|TZ|USER|LOGNAME|DBUS_SESSION_BUS_ADDRESS)$|(?:LC|XDG)_|SQUASH_(?!STANDBY$))/;

export function keepStartWords(dataDir: string, start: StartWords): void {
  const parts = [
    start.caller,
    entriesOf(start.env).filter((entry) => counts.test(entry.slice(0, entry.indexOf('=')))),
    start.sockets,
    sources.map((path) => join(projectDir, path)),
    start.words,
    entriesOf(start.daemonEnv),
  ];
  // An empty string would end a part.
  if (parts.flat().includes('')) return;
  const path = pathIn(dataDir);
  const made = `${path}.${process.pid}`;
  try {
    writeFileSync(made, parts.flatMap((part) => [...part, '']).join('\0') + '\0', {
      mode: 0o600,
      flag: 'wx',
    });
    renameSync(made, path);
  } catch {
    rmSync(made, { force: true });
  }
}

export function dropStartWords(dataDir: string): void {
  rmSync(pathIn(dataDir), { force: true });
}

function pathIn(dataDir: string): string {
  return join(dataDir, 'log/start.words');
}

function entriesOf(env: StartWords['env']): readonly string[] {
  return Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
}
