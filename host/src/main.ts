/**
 * The daemon, inside its namespaces: its first steps, and then `run-daemon.ts`, which builds every part in order onto one stack
 * and waits for a signal.
 *
 * The order is the trust argument of start-up: nothing is read before the data directory is ours alone, no sandbox is
 * touched before the database is sound, and nobody is answered before what an earlier daemon left is taken over.
 * Disposal goes the other way round; sandboxes and their commands outlive it.
 *
 * `main.ts repair` rebuilds the database instead and prints what it did as JSON: it has to run here, because the
 * files belong to the daemon's id.
 */
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import packageJson from '../../package.json' with { type: 'json' };
import { systemClock } from '@squash/base/clock';
import { startAgainCompiled } from '@squash/base/compiled';
import { createLog, type Log } from '@squash/base/log';
import type { Config } from './config/config.ts';
import { type LoadedConfig, readConfig } from './config/load.ts';
import { egressBuild } from './egress/egress-build.ts';
import { FirstEgress } from './egress/first-egress.ts';
import { exitAgain, exitConfig, exitHung, exitSoftware, leave, sayStop } from './endings.ts';
import { LaunchClient } from './launch/launch-client.ts';
import { probeHost } from './launch/host-probe.ts';
import type { runDaemon } from './run-daemon.ts';
import { lockDataDirectory } from './store/data-lock.ts';
import { UnsavedEnd } from './unsaved.ts';

const { version } = packageJson;

/** The exit code. */
async function serve(loaded: LoadedConfig, log: Log): Promise<number> {
  const ended: { unsaved?: UnsavedEnd } = {};
  const code = await serveUntilEnd(loaded, log, ended);
  return ended.unsaved?.exitCode(code) ?? code;
}

async function serveUntilEnd(
  loaded: LoadedConfig,
  log: Log,
  ended: { unsaved?: UnsavedEnd },
): Promise<number> {
  const { config } = loaded;
  const started = new Date(systemClock.wallMs()).toISOString();
  const stopping = stopSignal(log);
  await using stack = new AsyncDisposableStack();
  makeDirectories(config);
  stack.use(lockDataDirectory(config.dataDir));
  const unsaved = (ended.unsaved = new UnsavedEnd(config.runDir, log));
  const launcher = stack.use(new LaunchClient(config.runDir));
  const stopped = await waitForLauncher(launcher, config, { stopping, log });
  if (stopped !== undefined) return sayStop(log, stopped);
  const capabilities = probeHost(launcher);
  // Whoever awaits it is told; a start that fails before that has its own error.
  capabilities.catch(() => undefined);
  const build = egressBuild(version);
  const egress = await FirstEgress.start({ config, build, launcher, log });
  // By then the launcher has the question, and looks at this host while the thread loads.
  await nextTurn();
  const daemon = await loadDaemon();
  const begun = { version, started, stopping, stack, launcher, capabilities, build, egress, unsaved, log };
  return await daemon.runDaemon(loaded, begun);
}

/** All but what stands above: most of the time until the daemon answers is that of loading it. */
export function loadDaemon(): Promise<{ readonly runDaemon: typeof runDaemon }> {
  return import('./run-daemon.ts');
}

/** Resolves when it answers; with the signal where the daemon is to stop before. */
async function waitForLauncher(
  launcher: LaunchClient,
  { hungMs }: Config,
  { stopping, log }: { readonly stopping: Promise<string>; readonly log: Log },
): Promise<string | undefined> {
  const enough = new AbortController();
  const answers = launcher.answers(Math.min(hungMs, limits.launcherStartHungMs), enough.signal);
  const found = await Promise.race([answers, stopping]);
  enough.abort();
  await answers;
  if (found === false) leave(log, exitHung);
  return found === true ? undefined : found;
}

/**
 * The directories of the layout in ARCHITECTURE.md. The topmost is what keeps other users of the host out; one
 * that was made otherwise, by an operator or an earlier version, is closed here.
 */
function makeDirectories({ dataDir, runDir }: Config): void {
  chmodSync(dataDir, 0o700);
  for (const name of ['modules', 'layers', 'sandboxes', 'volumes', 'images', 'tmp', 'trash']) {
    mkdirSync(join(dataDir, name), { recursive: true });
  }
  mkdirSync(join(runDir, 'g'), { recursive: true });
}

/** One signal to a whole group of processes comes twice: from its sender, and passed on by the keeper. */
const sameSignalMs = 100;

/** The first SIGTERM or SIGINT; a second one ends the process at once, which loses nothing but open requests. */
function stopSignal(log: Log): Promise<string> {
  return new Promise((resolve) => {
    let firstMs: number | undefined;
    for (const name of ['SIGTERM', 'SIGINT'] as const) {
      process.on(name, () => {
        const nowMs = systemClock.monoMs();
        if (firstMs !== undefined && nowMs - firstMs > sameSignalMs) {
          log.warn('daemon.forced', { signal: name });
          process.exit(128 + (name === 'SIGINT' ? 2 : 15));
        }
        firstMs ??= nowMs;
        resolve(name);
      });
    }
  });
}

async function repair(config: Config): Promise<void> {
  const { repairState } = await import('./store/repair.ts');
  using _lock = lockDataDirectory(config.dataDir);
  const report = await repairState(config.dataDir, systemClock.wallMs());
  process.stdout.write(
    `${JSON.stringify({
      sandboxes: report.sandboxes.length,
      execs: report.execs,
      kept: report.keptAside ?? null,
      problems: report.problems,
    })}\n`,
  );
}

function openLog(config: Config['log']): Log {
  // Whoever read the log may go (`squash serve 2>&1 | head`, a closed terminal, a full disk): lines are lost then, and
  // the daemon is not.
  process.stderr.on('error', () => undefined);
  const format = config.format === 'auto' ? (process.stderr.isTTY ? 'pretty' : 'json') : config.format;
  return createLog({
    level: config.level,
    format,
    write: (line) => void process.stderr.write(line),
    nowMs: () => systemClock.wallMs(),
    rate: {
      linesMax: limits.guestLogLinesMax,
      windowMs: limits.guestLogWindowMs,
      keysMax: limits.guestLogKeysMax,
    },
  });
}

async function main(): Promise<number> {
  // The database and all else that is written here tells what ran in the sandboxes.
  process.umask(0o077);
  let log = openLog({ level: 'info', format: 'auto' });
  // A fault nobody caught: state is made to survive a death at any point, a half-working daemon is not.
  process.on('uncaughtException', (error) => {
    log.error('daemon.fault', { error, stack: error.stack });
    process.exit(exitSoftware);
  });
  try {
    const loaded = readConfig(process.env, process.cwd());
    log = openLog(loaded.config.log);
    if (process.argv[2] === 'repair') await repair(loaded.config);
    else {
      startAgainCompiled();
      return await serve(loaded, log);
    }
    return 0;
  } catch (error) {
    if (process.argv[2] === 'repair') {
      const code = error instanceof AppError ? error.code : 'internal';
      const message = error instanceof Error ? error.message : String(error);
      process.stdout.write(`${JSON.stringify({ error: { code, message } })}\n`);
    } else {
      log.error('daemon.failed', { error });
    }
    if (error instanceof AppError && error.code === 'launcher_unavailable') return exitAgain;
    return error instanceof AppError ? exitConfig : exitSoftware;
  }
}

/** The program: ends the process. */
export async function start(): Promise<never> {
  process.exit(await main());
}

if (import.meta.main) await start();
