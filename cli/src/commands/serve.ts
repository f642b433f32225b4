/**
 * `squash serve`: runs the daemon in the foreground, or with `--detach` in the background once it answers.
 *
 * Not the API's business: there is no daemon yet. The daemon's own first stage (`host/src/serve.ts`) takes our
 * place; the CLI knows its path and nothing else of it.
 */
import { closeSync, existsSync, fstatSync, mkdirSync, openSync, readSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type ChildProcess, spawn } from 'node:child_process';
import { localDataDirectory } from '../client/address.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { askOffline, hostEntries } from '../local-host.ts';
import { printJson, printLine } from '../output/print.ts';
import { ownDaemon } from './daemon-info.ts';

const stageOne = hostEntries.serve;

/**
 * The first start unpacks nothing and builds nothing; a slow disk and a recovery of 500 sandboxes fit. Tests wait for less; what is no
 * number the daemon refuses, as it does with all its variables.
 */
const readyMsMax = Number(process.env['SQUASH_READY_MS']) || 60_000;
const pollMs = 50;
/** A start that is told to end breaks off within a second, or it hangs. */
const endMsMax = 5_000;

/** A start that fails logs a few lines. */
const lastWordsBytesMax = 65_536;

export async function run(call: Call): Promise<number> {
  if (call.flags.isSet('detach')) return await detach(call);
  if (call.flags.isSet('log')) throw usageFailure('--log goes with --detach');
  // Becomes the daemon: signals and the exit code need no go-between.
  process.execve?.(process.execPath, [process.execPath, ...stageOne], environment());
  throw new CliFailure('unsupported', 'this Node can not replace its process; Node 24 can');
}

/** Words of the environment that are set; `undefined` is none. */
function environment(): Record<string, string> {
  const pairs = Object.entries(process.env).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return Object.fromEntries(pairs);
}

async function detach(call: Call): Promise<number> {
  const running = await ownDaemon(call.client);
  if (running !== undefined)
    throw new CliFailure('data_locked', `a daemon runs already, with pid ${running.pid}`);
  // The log lies in the data directory, which is refused here where it can not be one.
  await askOffline('prepare');
  const log = resolve(call.flags.text('log') ?? `${localDataDirectory()}/log/squashd.log`);
  const output = openLog(log);
  const begin = fstatSync(output).size;
  const child = spawn(process.execPath, stageOne, { detached: true, stdio: ['ignore', output, output] });
  closeSync(output);
  const ended = new Promise<string>((settle) => {
    child.once('error', (error) => settle(error.message));
    child.once('exit', (code, signal) => settle(`it ended with ${signal ?? `code ${code}`}`));
  });
  const given = new AbortController();
  const reason = await Promise.race([ended, ready(call, given.signal), interrupted()]);
  given.abort();
  if (reason !== undefined) {
    await end(child, ended);
    const said = lastWords(log, begin);
    throw new CliFailure('start_failed', `the daemon did not start: ${said ?? reason}; its log is "${log}"`);
  }
  child.unref();
  const info = await ownDaemon(call.client);
  if (call.json) printJson({ pid: info?.pid ?? null, log });
  else printLine(`squash serves in the background; pid ${info?.pid ?? '?'}, log ${log}`);
  return exitCodes.ok;
}

/** What ends this process before the daemon is ready ends the daemon as well: nobody would know of it. */
async function interrupted(): Promise<string> {
  const { promise, resolve: settle } = Promise.withResolvers<string>();
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.once(name, () => settle(`${name} came while it was awaited`));
  return await promise;
}

/** Nothing where it has ended by itself. One that hangs does not hear the first signal. */
async function end(child: ChildProcess, ended: Promise<string>): Promise<void> {
  child.kill('SIGTERM');
  const late = setTimeout(() => child.kill('SIGKILL'), endMsMax);
  await ended;
  clearTimeout(late);
}

function openLog(path: string): number {
  try {
    makeDirectory(dirname(path));
    return openSync(path, 'a', 0o600);
  } catch (cause) {
    throw new CliFailure('start_failed', `can't write the log "${path}": ${(cause as Error).message}`);
  }
}

/** One level, as beside the data directory's own: Node's `recursive` never ends where nothing can be made, as in /proc. */
function makeDirectory(path: string): void {
  if (!existsSync(path)) mkdirSync(path, { mode: 0o700 });
}

/** Why it ended: what it wrote last, its own line of text or the `error` of a line of the log. */
function lastWords(log: string, begin: number): string | undefined {
  const buffer = Buffer.alloc(lastWordsBytesMax);
  const file = openSync(log, 'r');
  const bytes = readSync(file, buffer, 0, buffer.length, begin);
  closeSync(file);
  const line = buffer.toString('utf8', 0, bytes).trimEnd().split('\n').at(-1) ?? '';
  try {
    const entry: unknown = JSON.parse(line);
    if (typeof entry !== 'object' || entry === null || !('error' in entry)) return undefined;
    // As the first stage writes it: the code behind the sentence.
    return String(entry.error).replace(/^([a-z_]+): (.*)$/s, '$2 ($1)');
  } catch {
    return line === '' ? undefined : line.replace(/^squash: /, '');
  }
}

async function ready(call: Call, signal: AbortSignal): Promise<string | undefined> {
  const deadline = performance.now() + readyMsMax;
  while (performance.now() < deadline && !signal.aborted) {
    // The address is found anew each time: the socket appears when the daemon is ready.
    if ((await ownDaemon(call.client.renewed())) !== undefined) return undefined;
    await new Promise((settle) => setTimeout(settle, pollMs));
  }
  return `it does not answer after ${readyMsMax / 1000} s`;
}
