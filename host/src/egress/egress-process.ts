/**
 * Starts the egress process: its own session, its own log file, its own memory limit. It is nobody's child in spirit:
 * the daemon that started it may die, and the next one takes it over by its socket.
 *
 * Its environment is made from nothing: the daemon's own holds the API token, and this process speaks with the world.
 */
import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '@squash/base/failure';
import { pause } from '@squash/base/pause';
import { limits } from '@squash/contract/limits';
import { launchProgram, programWords, projectDir } from '@squash/base/programs';
import { makeEgressFolders } from './egress-files.ts';

/** What it is given as words: a part of the configuration, and who it is. */
export interface EgressSettings {
  readonly dataDir: string;
  readonly runDir: string;
  /** What it answers as its version. */
  readonly build: string;
  readonly egressResolvers: readonly string[];
  readonly egressHostsFile: string | undefined;
  readonly log: { readonly level: string };
}

export interface StartedEgress {
  readonly pid: number;
  /** Resolves when it has ended, with how. */
  readonly ended: Promise<string>;
}

/** EX_IOERR of sysexits.h, as `egress/src/main.ts` uses it. */
const exitInputOutput = 74;
/** The young generation begins at a size that the program's start does not fill: with 4 MB each collection copied what is kept, a tenth of a start's page faults. */
export const memoryFlags = [
  `--max-old-space-size=${limits.egressHeapMb}`,
  '--min-semi-space-size=8',
  '--max-semi-space-size=8',
];
const program = programWords('egress/src/main.ts');

/** @throws where the program or the log can't be opened, or the process not be made */
export async function startEgress(settings: EgressSettings): Promise<StartedEgress> {
  if (!existsSync(program[1])) throw new Failure('program_missing', `"${program[1]}" is missing`);
  const { dataDir } = settings;
  makeEgressFolders(dataDir);
  const log = openSync(join(dataDir, 'log', 'egress.log'), 'a', 0o600);
  try {
    // It holds the real secrets: nobody gets a debugger into it by a signal.
    const words = ['--disable-sigusr1', ...memoryFlags, ...program, ...wordsOf(settings)];
    const child = spawn(launchProgram, [...heldWords(settings), process.execPath, ...words], {
      cwd: '/',
      detached: true,
      stdio: ['ignore', log, log],
      env: {
        PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
        LANG: 'C.UTF-8',
        // What lies there is executed: it is not the daemon's.
        NODE_COMPILE_CACHE: join(dataDir, 'egress', 'compile'),
        SQLITE_TMPDIR: join(dataDir, 'egress'),
      },
    });
    const { promise: ended, resolve } = Promise.withResolvers<string>();
    child.once('exit', (code, signal) => resolve(signal === null ? exitText(code ?? 0) : `signal ${signal}`));
    const spawned = Promise.withResolvers<number>();
    child.once('error', spawned.reject);
    child.once('spawn', () => spawned.resolve(child.pid ?? 0));
    const pid = await spawned.promise;
    // Nothing of this process waits for it.
    child.unref();
    return { pid, ended };
  } finally {
    closeSync(log);
  }
}

/** One that does not answer yet, or any more, can't be asked to end. Precondition: it has not ended, so its number is its own. */
export async function endStarted({ pid, ended }: StartedEgress): Promise<void> {
  killEgress(pid);
  const gone = new AbortController();
  void ended.then(() => gone.abort());
  // A child that nobody waits for does not keep this process until it has ended.
  await pause(limits.egressStopMs, gone.signal);
}

export function killEgress(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended in between.
  }
}

function exitText(code: number): string {
  // Of a full disk its own log may say nothing.
  const why = code === exitInputOutput ? ', its files can not be written or read: is the disk full?' : '';
  return `exit code ${code}${why}`;
}

/** It becomes the program that follows, and opens no other files of the machine than its own. */
function heldWords({ dataDir, runDir, egressHostsFile: file }: EgressSettings): readonly string[] {
  const own = ['egress', '--data', dataDir, '--run', runDir, '--app', projectDir];
  return [...own, ...(file === undefined ? [] : ['--read', file]), '--'];
}

function wordsOf(settings: EgressSettings): readonly string[] {
  const { egressResolvers, egressHostsFile } = settings;
  return [
    `--data=${settings.dataDir}`,
    `--run=${settings.runDir}`,
    `--build=${settings.build}`,
    `--log-level=${settings.log.level}`,
    ...(egressResolvers.length === 0 ? [] : [`--resolvers=${egressResolvers.join(',')}`]),
    ...(egressHostsFile === undefined ? [] : [`--hosts-file=${egressHostsFile}`]),
  ];
}
