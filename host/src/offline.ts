/**
 * What the command line asks of this machine where no daemon runs: `prepare`, `place`, `probe`, `config`, `repair`, `stop`.
 *
 * Prints one JSON object, or `{"error": {code, message}}` with a non-zero exit. This is the outside half, with
 * the caller's rights; what concerns the launcher and the data is done by `offline-inside.ts` in the daemon's
 * namespaces, because the files there belong to their ids. A launcher that lived before lives on.
 */
import { spawnSync } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Capability } from '@squash/contract/capability';
import { AppError, type ErrorCode, errorCatalog } from '@squash/contract/errors';
import { namespaceProblem } from '@squash/contract/user-namespaces';
import { z } from 'zod';
import { errorText } from '@squash/base/bug';
import { makeScratchDirectory } from '@squash/base/scratch-directory';
import { SocketDirectory } from '@squash/base/socket-directory';
import type { Config } from './config/config.ts';
import { explainConfig, loadConfig } from './config/load.ts';
import { enterCommand } from '@squash/base/daemon-command';
import { launchProgram, programWords } from '@squash/base/programs';
import { checkListen } from './http/listen.ts';
import { makeStateDirectories } from './serve.ts';

type Place = Pick<Config, 'dataDir' | 'runDir'> & Partial<Pick<Config, 'firecracker'>>;

/** A probe tries a sandbox, a repair reads every sandbox's file: minutes only on a very slow disk. */
const insideMsMax = 600_000;
/** A probe's or a repair's answer; the longest is a repair with a problem for each of 10,000 sandboxes. */
const answerBytesMax = 16_777_216;

const errorCodeSchema = z.custom<ErrorCode>(
  (code) => typeof code === 'string' && Object.hasOwn(errorCatalog, code),
);
const failureSchema = z.object({ error: z.object({ code: errorCodeSchema, message: z.string() }) });

async function answer(verb: string): Promise<unknown> {
  const cwd = process.cwd();
  switch (verb) {
    case 'config':
      return { config: explainConfig(process.env, cwd) };
    case 'probe':
      return { host: await probe(loadConfig(process.env, cwd)) };
    case 'prepare':
      await prepare(loadConfig(process.env, cwd));
      return {};
    case 'place':
      return whereCertificatesLie(loadConfig(process.env, cwd));
    case 'repair':
      return await inside('repair', madePlace(loadConfig(process.env, cwd)));
    case 'stop':
      return await stop(loadConfig(process.env, cwd));
    default:
      throw new AppError('invalid_request', `There is no offline verb "${verb}"`);
  }
}

/** What a start would refuse, before a quickstart builds for a minute. */
async function prepare({ listen, ...place }: Place & Pick<Config, 'listen'>): Promise<void> {
  madePlace(place);
  if (listen.port !== undefined) await checkListen(listen.host, listen.port);
}

/** For who puts files there before the first start, and while a daemon runs. */
function whereCertificatesLie(config: Config): unknown {
  if (config.previewDomain === undefined)
    throw new AppError('config_invalid', 'SQUASH_PREVIEW_DOMAIN is not set: there is no domain to certify');
  return { data_dir: madePlace(config).dataDir, preview_domain: config.previewDomain };
}

/** What runs, it runs beside the run directory that it was started with, whatever is configured by now. */
async function stop(place: Place): Promise<unknown> {
  const lived = { ...place, runDir: launcherRunDir(place.dataDir) ?? place.runDir };
  return (await isLauncherAlive(lived)) ? await inside('stop', lived) : { ended: 0 };
}

/** As `squash-launch enter` notes it; undefined where no launcher was ever started. */
function launcherRunDir(dataDir: string): string | undefined {
  try {
    return readFileSync(join(dataDir, 'launcher.lock'), 'utf8') || undefined;
  } catch {
    // None, or another user's: then what is configured is all there is to go by.
    return undefined;
  }
}

/** Where nothing was set up yet the probe looks from a directory that is removed afterwards. */
async function probe(place: Place): Promise<readonly Capability[]> {
  if (existsSync(place.dataDir)) return await probeAt(madePlace(place));
  checkCanBeMade(place.dataDir);
  const directory = makeScratchDirectory(tmpdir(), 'squash-doctor');
  try {
    return await probeAt(madePlace({ ...place, dataDir: directory, runDir: join(directory, 'run') }));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/**
 * Makes what is missing of the path and takes it away again. Below what others may write it only asks whether it may: they could
 * have put a link into the path meanwhile, and root would make and remove behind it. @throws config_invalid
 */
function checkCanBeMade(dataDir: string): void {
  const missing: string[] = [];
  let present = dataDir;
  for (; !existsSync(present); present = dirname(present)) missing.push(present);
  // As it is named, and where its links lead.
  if (isOpenToOthers(present) || isOpenToOthers(realpathSync(present))) {
    checkIsWritable(dataDir, present);
    return;
  }
  try {
    madePlace({ dataDir, runDir: join(dataDir, 'run') });
  } finally {
    // Empty ones only: somebody may just have begun to use it.
    for (const path of missing) rmEmptyDirectory(path);
  }
}

/** Whether anybody but us and root may change where this path leads. */
function isOpenToOthers(path: string): boolean {
  const { uid, mode } = statSync(path);
  if ((mode & 0o022) !== 0 || (uid !== 0 && uid !== process.getuid?.())) return true;
  return path !== dirname(path) && isOpenToOthers(dirname(path));
}

function checkIsWritable(dataDir: string, present: string): void {
  try {
    accessSync(join(present, '/'), constants.W_OK | constants.X_OK);
  } catch (cause) {
    const message = `SQUASH_DATA is "${dataDir}": no directory can be made in "${present}": ${errorText(cause)}`;
    throw new AppError('config_invalid', message, { cause });
  }
}

function rmEmptyDirectory(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    // Never made, or in use.
  }
}

/** That the namespaces can't be made is the most important finding of all. */
async function probeAt(place: Place): Promise<readonly Capability[]> {
  try {
    const { host } = (await inside('probe', place)) as { readonly host: readonly Capability[] };
    return host;
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'launch_failed') throw error;
    const { found, remedy } = namespaceProblem({
      read: readSetting,
      launcher: launchProgram,
      said: error.message,
    });
    return [
      {
        name: 'namespaces',
        state: 'missing',
        required: true,
        found: `${error.message}: ${found}`,
        choice: 'none',
        weaker: 'no sandbox can start',
        remedy: remedy.join('\n'),
      },
    ];
  }
}

function readSetting(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    // This kernel has no such setting.
    return undefined;
  }
}

function madePlace(place: Place): Place {
  makeStateDirectories(place);
  return place;
}

async function inside(verb: string, place: Place): Promise<unknown> {
  const after = (await isLauncherAlive(place)) ? 'keep' : 'end';
  const { program, words } = enterCommand(place, [
    process.execPath,
    ...programWords('host/src/offline-inside.ts'),
    verb,
    place.dataDir,
    place.runDir,
    after,
    ...(place.firecracker === undefined ? [] : [place.firecracker.path ?? '']),
  ]);
  const child = spawnSync(program, words.slice(1), {
    // What the daemon has compiled: Node's TypeScript parser is a megabyte of WebAssembly, too much for a moment's work. For
    // the inside half alone: the daemon can write there what it likes, and this half may be root.
    env: { ...process.env, NODE_COMPILE_CACHE: join(place.runDir, 'compile') },
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    timeout: insideMsMax,
    maxBuffer: answerBytesMax,
  });
  if (child.error !== undefined)
    throw new AppError('launch_failed', child.error.message, { cause: child.error });
  const end = child.signal ?? `code ${child.status}`;
  return parseAnswer(child.stdout, child.stderr.trim() || `squash-launch ended without a word, by ${end}`);
}

/** @param reason where it did not get so far as to answer: what it said on the way, its code in parentheses behind it */
function parseAnswer(text: string, reason: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    const code = errorCodeSchema.safeParse(/ \(([a-z_]+)\)$/.exec(reason)?.[1]);
    throw new AppError(code.success ? code.data : 'launch_failed', reason.replace(/ \([a-z_]+\)$/, ''));
  }
  const failure = failureSchema.safeParse(value);
  if (failure.success) throw new AppError(failure.data.error.code, failure.data.error.message);
  return value;
}

/** Whether somebody listens. The launcher talks to its own ids only, but it accepts. */
async function isLauncherAlive(place: Place): Promise<boolean> {
  if (!existsSync(place.runDir)) return false;
  using directory = new SocketDirectory(place.runDir);
  try {
    (await directory.connect('launch.sock')).destroy();
    return true;
  } catch {
    // No socket, or one that nobody listens on any more.
    return false;
  }
}

/** The program. */
export async function start(): Promise<void> {
  try {
    process.stdout.write(`${JSON.stringify(await answer(process.argv[2] ?? ''))}\n`);
  } catch (error) {
    const code = error instanceof AppError ? error.code : 'internal';
    const message = error instanceof Error ? error.message : String(error);
    process.stdout.write(`${JSON.stringify({ error: { code, message } })}\n`);
    process.exitCode = 1;
  }
}

if (import.meta.main) await start();
