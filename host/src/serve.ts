/**
 * `squash serve`, stage one: still outside, with the rights of whoever called. Reads the configuration, makes the
 * data directory, and becomes `squash-launch keep`, whose child joins or makes the namespaces and becomes the daemon.
 *
 * The process id stays the same, so a service manager watches the right process: it passes signals on, and ends as the
 * daemon does.
 */
import { accessSync, constants, existsSync, lstatSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { daemonCommand, type EnterCommand } from '@squash/base/daemon-command';
import { AppError } from '@squash/contract/errors';
import { pinnedEnvironment } from './config/config.ts';
import { loadConfig, pinnedSettings } from './config/load.ts';

/**
 * The data and the run directory, closed to other users of the host. Below them lie what sandboxes wrote and what
 * their commands printed, and layers may hold set-uid files whose owner is the root of every sandbox. What the
 * launcher mounts from there it reaches before it gives up the daemon's id.
 */
export function makeStateDirectories(place: { readonly dataDir: string; readonly runDir: string }): void {
  checkIsOurs(place.dataDir);
  checkRunIsOurs(place);
  for (const [name, path] of [
    ['SQUASH_DATA', place.dataDir],
    ['SQUASH_RUN', place.runDir],
  ] as const) {
    // squash-launch makes it with the daemon's id: as root we make nothing in a directory that is not root's.
    if (path.startsWith(`${place.dataDir}/`)) continue;
    try {
      makePath(path, 0o700);
    } catch (cause) {
      const { code = '', message } = cause as NodeJS.ErrnoException;
      const why = `${whyNotMade[code] ?? 'it can not be made'} (${message})`;
      throw new AppError('config_invalid', `${name} is "${path}": ${why}`, { cause });
    }
  }
}

const whyNotMade: Readonly<Record<string, string>> = {
  EACCES: 'this user may not make a directory there',
  EPERM: 'no directory can be made there',
  // So says a file system that the kernel fills itself, such as /proc.
  ENOENT: 'no directory can be made there',
  EROFS: 'the file system is read-only',
  EEXIST: 'what is there is no directory',
  ENOTDIR: 'a part of the path is no directory',
  ENOSPC: 'the disk is full',
};

/**
 * The directory, and what is missing above it, open as others are. Node's own `recursive` does not do: where a file
 * system denies a directory whose parent is there, it asks for the parent again and again, for ever.
 */
function makePath(path: string, mode: number): void {
  const parent = dirname(path);
  if (!existsSync(parent)) makePath(parent, 0o777);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!existsSync(path) || !statSync(path).isDirectory()) throw error;
  }
}

/** What a data directory may hold before it has its database: what we make, and what an operator or a mount brings. */
const ownNames = new Set([
  'modules',
  'sandboxes',
  'run',
  'log',
  'tmp',
  'trash',
  'unsaved',
  'layers',
  'images',
  'secrets.json',
  'registry-auth.json',
  'secrets',
  'egress-ceiling.json',
  'egress-presets.json',
  'egress-upstreams.json',
  'preview.key',
  'preview-cert.pem',
  'preview-cert.key',
  'preview-acme',
  'proxy-ca',
  'egress',
  'egress.next',
  'egress.db',
  '.env',
  'lost+found',
  's3-origin',
  'launch.lock',
  'launcher.lock',
  'helper.lock',
  'daemon.lock',
  'reserve',
  'standby.lock',
  'standby.sock',
]);

/**
 * The directory is closed to others and, where root starts us, given to another id: a wrong word in the configuration,
 * SQUASH_DATA=/var, must not do that to a directory with another purpose. @throws config_invalid
 */
function checkIsOurs(dataDir: string): void {
  // One that we can't look into is another user's: squash-launch says so.
  if (!existsSync(dataDir) || !isReadable(dataDir)) return;
  if (!statSync(dataDir).isDirectory()) {
    throw new AppError('config_invalid', `SQUASH_DATA is "${dataDir}", which is no directory`);
  }
  if (isDatabase(join(dataDir, 'squash.db')) || holdsLayers(join(dataDir, 'modules'))) return;
  const names = readdirSync(dataDir);
  const foreign = names.find((name) => !ownNames.has(name));
  if (foreign === undefined) return;
  throw new AppError(
    'config_invalid',
    `SQUASH_DATA is "${dataDir}", which holds "${foreign}" and nothing of Squash: name an empty or a new directory`,
  );
}

/** What a run directory may hold that is not given away yet. */
const runNames =
  /^(?:(?:launch|api|egress|egress-api)\.sock|launch\.log|boot-id|unsaved\.json|lock|(?:launch|helper)\.lock|compile|g)$/;

/** The same for one of root's beside the data directory, which it is about to give away: SQUASH_RUN=/etc. @throws config_invalid */
function checkRunIsOurs({ dataDir, runDir }: { readonly dataDir: string; readonly runDir: string }): void {
  if (runDir.startsWith(`${dataDir}/`) || !existsSync(runDir) || !isReadable(runDir)) return;
  const status = statSync(runDir);
  if (!status.isDirectory() || status.uid !== 0 || process.geteuid?.() !== 0) return;
  const foreign = readdirSync(runDir).find((name) => !runNames.test(name));
  if (foreign === undefined) return;
  throw new AppError(
    'config_invalid',
    `SQUASH_RUN is "${runDir}", which holds "${foreign}": name an empty or a new directory`,
  );
}

/** A name alone proves nothing: `/etc/modules` is a file, `/usr/lib/modules` holds the kernel's. */
function holdsLayers(path: string): boolean {
  if (!lstatSync(path, { throwIfNoEntry: false })?.isDirectory()) return false;
  return readdirSync(path).some((name) => name.endsWith('.squashfs'));
}

function isDatabase(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * What a call with this environment becomes, whose state directories are made: the keeper's program, words and environment.
 * `cwd`, absolute, may hold a `.env`. @throws config_invalid
 */
export function serveCommand(
  environment: NodeJS.ProcessEnv,
  cwd: string,
): EnterCommand & { readonly env: Readonly<Record<string, string>> } {
  const config = loadConfig(environment, cwd);
  makeStateDirectories(config);
  const { program, words, env: own } = daemonCommand(config);
  const env: Record<string, string> = {
    ...pinnedSettings(environment, cwd),
    ...pinnedEnvironment(config),
    ...own,
  };
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && env[name] === undefined) env[name] = value;
  }
  return { program, words, env };
}

function serve(): void {
  const { program, words, env } = serveCommand(process.env, process.cwd());
  process.execve?.(program, [...words], { ...env });
  throw new AppError('internal', `this Node can not become "${program}": Node 24 can`);
}

/** The program: becomes the daemon's keeper, or says why not. */
export function start(): void {
  try {
    serve();
  } catch (error) {
    const code = error instanceof AppError ? error.code : 'internal';
    process.stderr.write(`squash: ${error instanceof Error ? error.message : String(error)} (${code})\n`);
    process.exitCode = 78;
  }
}

if (import.meta.main) start();
