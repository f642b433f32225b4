/** Calls of the `squash` command line in tests, as a user's shell makes them: words, an environment, streams. */
import { type ChildProcess, spawn, type StdioOptions } from 'node:child_process';
import { join } from 'node:path';
import { sandboxSchema } from '@squash/contract/native-sandbox';
import { sandboxInfoSchema } from '@squash/contract/sandbox';
import { repository } from './base-layer.ts';
import type { TestDaemon } from './daemon.ts';

/** Of `ls` and `info`: what each spelling of the API tells. */
export const bothSchema = sandboxInfoSchema.extend(sandboxSchema.shape);

export interface CliEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

export interface CliOptions {
  /** Standard input; none is `/dev/null`. */
  readonly input?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** The program and its first word: Node itself, so that a test's signals reach the CLI and no shell. */
export const cliCommand = [process.execPath, join(repository, 'cli/bin/squash.cjs')] as const;

export function cliEnvironment(daemon: TestDaemon | undefined): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '/usr/bin:/bin',
    HOME: process.env['HOME'] ?? '/root',
    TERM: 'xterm',
    ...(daemon === undefined ? {} : { SQUASH_DATA: daemon.dataDir }),
  };
}

/** Starts a call and leaves its streams to the test. */
export function startCli(
  daemon: TestDaemon | undefined,
  words: readonly string[],
  options: {
    readonly stdio?: StdioOptions;
    readonly env?: Readonly<Record<string, string>>;
    readonly cwd?: string;
  } = {},
): ChildProcess {
  const [program, script] = cliCommand;
  return spawn(program, [script, ...words], {
    env: { ...cliEnvironment(daemon), ...options.env },
    stdio: options.stdio ?? 'pipe',
    ...(options.cwd !== undefined && { cwd: options.cwd }),
  });
}

/** One whole call. */
export async function squash(
  daemon: TestDaemon | undefined,
  words: readonly string[],
  options: CliOptions = {},
): Promise<CliEnd> {
  const stdin = options.input === undefined ? 'ignore' : 'pipe';
  const child = startCli(daemon, words, {
    stdio: [stdin, 'pipe', 'pipe'],
    ...(options.env !== undefined && { env: options.env }),
    ...(options.cwd !== undefined && { cwd: options.cwd }),
  });
  // A command that ends without reading its input breaks the pipe; its exit code tells.
  child.stdin?.on('error', () => {});
  child.stdin?.end(options.input);
  return await endOf(child);
}

export async function endOf(child: ChildProcess): Promise<CliEnd> {
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout?.on('data', (part: Buffer) => stdout.push(part));
  child.stderr?.on('data', (part: Buffer) => stderr.push(part));
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.once('error', reject).once('close', () => resolve());
  await promise;
  return {
    code: child.exitCode,
    signal: child.signalCode,
    stdout: Buffer.concat(stdout),
    stderr: Buffer.concat(stderr).toString(),
  };
}

/** A call that must succeed; what it printed, without the last line's end. */
export async function squashOk(
  daemon: TestDaemon,
  words: readonly string[],
  options: CliOptions = {},
): Promise<string> {
  const end = await squash(daemon, words, options);
  if (end.code !== 0) throw new Error(`squash ${words.join(' ')}: ${end.code} ${end.stderr}`);
  return end.stdout.toString().replace(/\n$/, '');
}
