/**
 * Namespaces around a child process, by bubblewrap, where this machine has it and lets an ordinary user make namespaces: no network, no other
 * process, no file but Node, its libraries and the worker's own, no capability, and `seccomp.ts`. For whoever leaves an engine; the code in the
 * engine has none of this in the first place. Without bubblewrap the child runs as it is, and `squash doctor` says so.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { seccompFilter } from './seccomp.ts';

const run = promisify(execFile);

export interface Confinement {
  readonly program: string;
  /** Up to the files that the command itself needs. */
  readonly args: readonly string[];
  readonly filter: Buffer | undefined;
}

export type ConfinementState =
  | { readonly usable: true; readonly detail: string; readonly confinement: Confinement }
  | { readonly usable: false; readonly detail: string };

/** Not by the PATH: whoever can change that could as well change this file, but need not be given the occasion. */
const places = ['/usr/bin/bwrap', '/bin/bwrap', '/usr/local/bin/bwrap'];

const namespaces = [
  '--unshare-user',
  '--unshare-ipc',
  '--unshare-pid',
  '--unshare-net',
  '--unshare-uts',
  '--unshare-cgroup-try',
  '--uid',
  '65534',
  '--gid',
  '65534',
  '--hostname',
  'codemode',
  '--cap-drop',
  'ALL',
  '--die-with-parent',
  '--new-session',
  // Without a process of bubblewrap's own inside; Node needs no reaper, it can't make processes.
  '--as-pid-1',
];

let state: Promise<ConfinementState> | undefined;

/** Found out once, by starting Node within it. */
export function confinementState(): Promise<ConfinementState> {
  state ??= probe();
  return state;
}

/** Read-only at their own places, and nothing else. */
export function bindFlags(paths: readonly string[]): readonly string[] {
  return [...paths.flatMap((path) => ['--ro-bind', path, path]), '--remount-ro', '/', '--chdir', '/'];
}

/** Of a program that is linked to them, as its loader finds them. */
export async function libraries(program: string): Promise<readonly string[]> {
  const { stdout } = await run('ldd', [program]);
  return [...stdout.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map((found) => found[1] ?? '');
}

async function probe(): Promise<ConfinementState> {
  const program = places.find((place) => existsSync(place));
  if (program === undefined) return { usable: false, detail: 'bubblewrap is not installed' };
  try {
    const args = [...namespaces, ...(await ownFiles())];
    await run(program, [...args, ...bindFlags([]), '--', process.execPath, '--version'], { env: {} });
    const { stdout } = await run(program, ['--version']);
    const filter = seccompFilter();
    const detail = `${stdout.trim()}${filter === undefined ? `, no seccomp filter on ${process.arch}` : ''}`;
    return { usable: true, detail, confinement: { program, args, filter } };
  } catch (failure) {
    const said = (failure as { readonly stderr?: string }).stderr?.trim().split('\n').at(-1);
    return { usable: false, detail: said || `${program} can not be used` };
  }
}

async function ownFiles(): Promise<readonly string[]> {
  return [process.execPath, ...(await libraries(process.execPath))].flatMap((path) => [
    '--ro-bind',
    path,
    path,
  ]);
}
