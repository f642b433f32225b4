/**
 * Child processes of the benchmark: run to the end, timed to their exit, or timed to their first output byte.
 * A child that fails throws with its own words: a peer that exits at once would otherwise look very fast.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** A peer's step that takes longer hangs (seen with runsc on /dev/kvm); the step is then the peer's failure. */
const stepMsMax = 120_000;
/** Kept of a child's output: an error message, not a log. */
const outputBytesMax = 1_048_576;

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Where and as whom a child runs; as this process where nothing is said. */
export interface RunPlace {
  readonly cwd?: string;
  readonly uid?: number;
  readonly gid?: number;
}

export interface RunOptions extends RunPlace {
  readonly env?: NodeJS.ProcessEnv;
  readonly input?: string;
}

/** Runs to the end whatever the exit code. @throws when the program can't be started or hangs */
export async function run(argv: readonly string[], options: RunOptions = {}): Promise<Outcome> {
  const [file, ...rest] = argv;
  if (file === undefined) throw new TypeError('empty argv');
  const { input, env = process.env, ...place } = options;
  const child = spawn(file, rest, {
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    env,
    ...place,
  });
  const stdout = collect(child.stdout);
  const stderr = collect(child.stderr);
  child.stdin?.on('error', () => undefined); // A child that does not read its input says so by its exit code.
  child.stdin?.end(input);
  const code = await exitOf(child);
  return { code, stdout: await stdout, stderr: await stderr };
}

/** Like `run`. @throws Error with the child's last words when it does not exit with 0 */
export async function mustRun(argv: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await run(argv, options);
  if (code !== 0) throw new Error(`${argv[0]} exited with ${code}: ${lastLine(stderr || stdout)}`);
  return stdout;
}

/** Milliseconds from spawn to exit. */
export async function timeToExit(
  argv: readonly string[],
  env = process.env,
  place: RunPlace = {},
): Promise<number> {
  const [file = '', ...rest] = argv;
  const started = performance.now();
  const child = spawn(file, rest, { stdio: 'ignore', env, ...place });
  const code = await exitOf(child);
  const elapsed = performance.now() - started;
  if (code !== 0) throw new Error(`${argv.join(' ')} exited with ${code}`);
  return elapsed;
}

/** Milliseconds from spawn to the first byte on stdout; returns when the child has exited. */
export async function timeToFirstByte(argv: readonly string[], env = process.env): Promise<number> {
  const [file = '', ...rest] = argv;
  const started = performance.now();
  const child = spawn(file, rest, { stdio: ['ignore', 'pipe', 'ignore'], env });
  let elapsed: number | undefined;
  child.stdout.on('data', () => (elapsed ??= performance.now() - started));
  const code = await exitOf(child);
  if (code !== 0 || elapsed === undefined) {
    throw new Error(`${argv.join(' ')} exited with ${code}, ${elapsed === undefined ? 'no' : 'some'} output`);
  }
  return elapsed;
}

/** Milliseconds one asynchronous step takes. */
export async function timed(step: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await step();
  return performance.now() - started;
}

/** 128 + signal number is not needed here: any signal is a failure. */
async function exitOf(child: ChildProcess): Promise<number> {
  // Node's own time limit of a child keeps this process waiting for a program that could not be started.
  const late = setTimeout(() => child.kill('SIGKILL'), stepMsMax);
  try {
    const [code] = (await once(child, 'close')) as [number | null];
    return code ?? -1;
  } finally {
    clearTimeout(late);
  }
}

async function collect(stream: NodeJS.ReadableStream | null): Promise<string> {
  if (stream === null) return '';
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    const buffer = Buffer.from(chunk);
    bytes += buffer.length;
    if (bytes <= outputBytesMax) chunks.push(buffer);
  }
  return Buffer.concat(chunks).toString('utf8');
}

export function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.trim() ?? '';
}
