/**
 * The daemon, inside its namespaces: builds every part in order onto one stack and waits for a signal.
 *
 * The order is the trust argument of start-up: nothing is read before the data directory is ours alone, nothing
 * runs before the database is sound, and nobody is answered before what an earlier daemon left is taken over.
 * Disposal goes the other way round; sandboxes and their commands outlive it.
 *
 * `main.ts repair` rebuilds the database instead and prints what it did as JSON: it has to run here, because the
 * files belong to the daemon's id.
 */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Capability } from '@squash/contract/capability';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import packageJson from '../../package.json' with { type: 'json' };
import { AuditLog } from './audit/audit-log.ts';
import { gatewaySocket, type HttpService, startHttp } from './api/serve-http.ts';
import { systemClock } from '@squash/base/clock';
import { startAgainCompiled } from '@squash/base/compiled';
import { exposeCollection } from '@squash/base/late-flags';
import { createLog, type Log } from '@squash/base/log';
import { restHeap } from '@squash/base/resting-heap';
import type { Config } from './config/config.ts';
import { type LoadedConfig, readConfig } from './config/load.ts';
import { mallocTrimAddon } from './config/programs.ts';
import { NamespaceDriver } from './drivers/namespace/namespace-driver.ts';
import { endLauncher } from './egress/end-launcher.ts';
import type { EgressNetwork } from './egress/egress-network.ts';
import { openEgress } from './egress/open-egress.ts';
import { IdleExit } from './http/idle-exit.ts';
import { ConnectionOwners } from './http/connection-owner.ts';
import { weakToken } from './config/listen.ts';
import { checkListen } from './http/listen.ts';
import { LaunchClient } from './launch/launch-client.ts';
import { probeHost } from './launch/host-probe.ts';
import { LocalLayerStore } from './layers/local-layer-store.ts';
import { hostDirectoriesSchema } from '@squash/contract/host-directory';
import { LocalHostRoots, readStarter } from './mounts/host-roots.ts';
import { StoredMountSources } from './mounts/mount-sources.ts';
import { surroundings } from './mounts/surroundings.ts';
import { readOperatorFile } from './egress/operator-file.ts';
import { LocalEngine, type LocalEngineOptions } from './engine/local-engine.ts';
import { HttpRegistries } from './oci/registry.ts';
import { lockDataDirectory } from './store/data-lock.ts';
import { type Gateway, startGateway } from './ssh/gateway.ts';
import { openState } from './store/open-state.ts';
import { repairState } from './store/repair.ts';
import { Reserve } from './store/reserve.ts';
import { Webhooks, type WebhooksOptions } from './webhooks/webhooks.ts';
import type { Store } from './store/store.ts';

/** Exit codes of sysexits.h: a service manager does not start again what can't work. */
const exitConfig = 78;
const exitSoftware = 70;
/** What `squash-launch keep` starts again: everything that the namespaces hang on is made anew. */
const exitAgain = 75;
/** The same, after it has ended the launcher, which lives and does not answer. */
const exitHung = 76;
const { version } = packageJson;

/** The exit code. */
async function serve({ config, explained }: LoadedConfig, log: Log): Promise<number> {
  const started = new Date(systemClock.wallMs()).toISOString();
  const stopping = stopSignal(log);
  await using stack = new AsyncDisposableStack();
  makeDirectories(config);
  stack.use(lockDataDirectory(config.dataDir));
  const launcher = stack.use(new LaunchClient(config.runDir));
  const stopped = await waitForLauncher(launcher, config, { stopping, log });
  if (stopped !== undefined) return sayStop(log, stopped);
  let isServing = false;
  const left: Leftovers = { config, log, isNeeded: false, egressProcess: undefined };
  stack.defer(() => endIdle(launcher, left));
  const probed = probeBeside(launcher);
  await checkPort(config);
  const reserve = stack.use(new Reserve(config.dataDir));
  const store = stack.use(openState(config.dataDir, reserve));
  const isFirstOfBoot = isNewBoot(config, log);
  const { network, secrets, rules } = await openEgress({ config, launcher, version, log });
  const capabilities = await probed;
  const driver = stack.use(
    new NamespaceDriver({
      ...config,
      launcher,
      capabilities,
      snapshotBytesMax: snapshotBytesMax(config),
    }),
  );
  // From here on, whoever waits for the launcher: the rest of the start has no end of its own that the keeper knows.
  const lost = lossOf(driver).then((code) => (isServing ? code : leave(log, code)));
  left.egressProcess = stack.use(network);
  const engine = stack.use(
    await LocalEngine.open({
      dataDir: config.dataDir,
      store,
      driver,
      ...(await openLayers(config, stack, { launcher, log })),
      log,
      clock: systemClock,
      removeTree: (path) => launcher.removeTree(path),
      network,
      mounts: mountSources(config, store),
      hostRoots: hostRoots(config, capabilities),
      ...boundsOf(config),
      isFirstOfBoot,
    }),
  );
  if (isFirstOfBoot) noteBoot(config, log);
  const owners = new ConnectionOwners(process.env);
  const ownerRow = await owners.capability(isOpenToUsers(config));
  const tokenRow = weakToken(config);
  const gateway = stack.use(await openGateway(config, log));
  const info = { version, started, host: [...capabilities, ownerRow, ...tokenRow], config: [...explained] };
  const egress = { rules, log: network.client, secrets };
  const audit = stack.use(openAudit(config, log));
  const webhooks = stack.use(openWebhooks(config, { store, events: engine.events, log }));
  const parts = { info, gateway, owners, egress, audit, webhooks, log };
  const http = stack.use(await startHttp({ engine, config, ...parts }));
  await network.listensAt(http.listen);
  stack.use(restWithCollection(log));
  sayReady(http, engine, log);
  isServing = left.isNeeded = true;
  reserve.keep();
  sayWeakDoors(ownerRow, tokenRow, log);
  await sayFirstLayer(engine, log);
  using unneeded = idleExit(config, http, engine);
  const signal = await Promise.race([stopping, lost, unneeded.idle]);
  left.isNeeded = signal !== 'idle';
  if (typeof signal === 'number') leave(log, signal);
  return sayStop(log, signal);
}

/** It asks programs and the kernel, for tens of milliseconds in which the daemon reads its own files. */
function probeBeside(launcher: LaunchClient): Promise<readonly Capability[]> {
  const probed = probeHost(launcher);
  // Whoever awaits it is told; a start that fails before that has its own error.
  probed.catch(() => undefined);
  return probed;
}

function restWithCollection(log: Log): Disposable {
  exposeCollection();
  return restHeap({ trimAddon: mallocTrimAddon, log });
}

/** A sandbox that rests has files and no processes; one that stands still has both. */
function idleExit({ idleExitMs }: Config, http: HttpService, engine: LocalEngine): IdleExit {
  return new IdleExit({
    ms: idleExitMs,
    clock: systemClock,
    requests: () => http,
    isRunning: () => engine.sandboxes.list().some(({ state }) => state !== 'stopped' && state !== 'failed'),
  });
}

function boundsOf(
  config: Config,
): Pick<LocalEngineOptions, 'sandboxesMax' | 'ceilings' | 'admission' | 'requiresLimits' | 'fixedLimits'> {
  const { sandboxesMax, ceilings, admission, requiresLimits } = config;
  return { sandboxesMax, ceilings, admission, requiresLimits, fixedLimits: fixedLimits(config) };
}

function openAudit({ dataDir }: Config, log: Log): AuditLog {
  return new AuditLog({ directory: join(dataDir, 'audit'), clock: systemClock, log });
}

async function checkPort({ listen: { host, port } }: Config): Promise<void> {
  if (port !== undefined) await checkListen(host, port, limits.listenWaitMs);
}

async function openLayers(
  config: Config,
  stack: AsyncDisposableStack,
  { launcher, log }: { readonly launcher: LaunchClient; readonly log: Log },
): Promise<Pick<LocalEngineOptions, 'layers' | 'bucket' | 'ephemeralMs' | 'layerTool' | 'registries'>> {
  const { s3, dataDir, ephemeralMs } = config;
  const layers = new LocalLayerStore({ dataDir, tool: launcher });
  const images = { layerTool: launcher, registries: new HttpRegistries(config) };
  if (s3 === undefined) return { layers, bucket: undefined, ephemeralMs, ...images };
  // The library takes memory and time, so it is loaded only for a bucket.
  const { openBucket } = await import('./s3/open-bucket.ts');
  return { layers, bucket: stack.use(openBucket(s3, { dataDir, layers, log })), ephemeralMs, ...images };
}

/** Its clients have to wait until the API is there. */
async function openGateway({ ssh, dataDir, runDir }: Config, log: Log): Promise<Gateway | undefined> {
  if (ssh === undefined) return undefined;
  return await startGateway({ ssh, dataDir, socketPath: gatewaySocket(runDir), log });
}

function openWebhooks(
  { webhookRanges }: Config,
  parts: Pick<WebhooksOptions, 'store' | 'events' | 'log'>,
): Webhooks {
  return new Webhooks({ ...parts, clock: systemClock, allowRanges: webhookRanges });
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

/** The exit code. */
function sayStop(log: Log, signal: string): number {
  log.info('daemon.stopping', { signal });
  return 0;
}

/** The exit code that says what has become of the launcher, when it is lost. */
function lossOf(driver: NamespaceDriver): Promise<number> {
  const gone = driver.launcherGone.then(() => exitAgain);
  return Promise.race([gone, driver.launcherHung.then(() => exitHung)]);
}

/** @throws config_invalid */
function mountSources({ dataDir, runDir }: Config, store: Store): StoredMountSources {
  const file = { dataDir, name: 'host-directories.json' };
  return new StoredMountSources({
    store,
    hostDirectories: readOperatorFile(file, hostDirectoriesSchema) ?? [],
    surroundings: surroundings([
      dataDir,
      runDir,
      fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, ''),
    ]),
  });
}

function hostRoots(config: Config, capabilities: readonly Capability[]): LocalHostRoots {
  const { dataDir, runDir, offersHostRoot, overlay, ephemeralMs } = config;
  const starter = readStarter(process.env['SQUASHD_STARTER']);
  return new LocalHostRoots({
    isOffered: offersHostRoot,
    isEphemeral: ephemeralMs !== undefined,
    hasOverlay:
      overlay !== 'fuse' &&
      capabilities.some(({ name, state }) => name === 'kernel_overlay' && state === 'ok'),
    starter,
    around: { own: [dataDir, runDir], home: process.env['HOME'], isRoot: starter.uid === 0 },
  });
}

function fixedLimits({ upperLimitBytes }: Config) {
  return {
    pidsMax: limits.sandboxPidsMax,
    shmBytesMax: limits.sandboxShmBytesMax,
    openFilesMax: limits.sandboxOpenFilesMax,
    upperBytesMax: upperLimitBytes,
    upperInodesMax: Math.ceil(upperLimitBytes / limits.upperBytesPerInode),
  };
}

/**
 * The launcher has ended or hangs, so this daemon's namespaces can make no sandbox any more. State is made to survive a death at
 * any point, and what open requests wait for is gone.
 */
function leave(log: Log, code: number): never {
  const event = code === exitHung ? 'daemon.launcher_hung' : 'daemon.launcher_gone';
  log.error(event, { remedy: 'the daemon starts again with another launcher' });
  process.exit(code);
}

interface Leftovers {
  readonly config: Config;
  readonly log: Log;
  /** Somebody needs what runs: it stays. */
  isNeeded: boolean;
  egressProcess: Pick<EgressNetwork, 'endOwn'> | undefined;
}

/** A daemon that nobody needs leaves nothing running, and neither does a start that failed: a launcher without a sandbox is nobody else's. */
async function endIdle(
  launcher: LaunchClient,
  { config: { runDir }, log, isNeeded, egressProcess }: Leftovers,
): Promise<void> {
  try {
    if (isNeeded || (await launcher.list()).length > 0) return;
    await endLauncher(launcher, runDir, limits.egressLookAnswerMs);
    await egressProcess?.endOwn();
  } catch (error) {
    // What the start failed with is told; that it could not be tidied behind it comes second.
    log.warn('daemon.untidy', { error });
  }
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

/** A squashfs of incompressible files is a little larger than they are. */
function snapshotBytesMax(config: Config): number {
  return Math.ceil(config.upperLimitBytes * 1.05) + limits.snapshotOverheadBytes;
}

/** What runs is what the launcher lists, whatever this says; but only a reboot may have taken what was not yet on the disk. */
function isNewBoot({ runDir }: Config, log: Log): boolean {
  let before: string | undefined;
  try {
    before = readFileSync(join(runDir, 'boot-id'), 'utf8').trim();
  } catch {
    // The first daemon of this data directory, or of this boot where it lies in memory.
  }
  if (before === bootId()) return false;
  if (before !== undefined) log.info('daemon.rebooted');
  return true;
}

/** When all that was found is known: a start that was cut short has the next one look again. */
function noteBoot({ runDir }: Config, log: Log): void {
  try {
    writeFileSync(join(runDir, 'boot-id'), `${bootId()}\n`);
  } catch (error) {
    // On a full disk the next start says so once more.
    log.warn('daemon.boot-id', { error });
  }
}

function bootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
}

/** Where TCP is listened on and no token keeps anybody out. */
function isOpenToUsers({ listen, authToken }: Config): boolean {
  return listen.port !== undefined && authToken === undefined;
}

function sayReady({ socketPath, listen }: HttpService, engine: LocalEngine, log: Log): void {
  log.info('daemon.ready', {
    version,
    socket: socketPath,
    listen: listen === null ? null : `http://${listen.host}:${listen.port}`,
    sandboxes: engine.sandboxes.list().length,
  });
}

function sayWeakDoors({ weaker, remedy }: Capability, token: readonly Capability[], log: Log): void {
  if (weaker !== null) log.warn('listen.owner_unknown', { weaker, remedy });
  for (const row of token)
    log.warn('listen.weak_token', { found: row.found, weaker: row.weaker, remedy: row.remedy });
}

async function sayFirstLayer(engine: LocalEngine, log: Log): Promise<void> {
  if ((await engine.health()).baseReady) return;
  log.warn('layers.none', {
    remedy: 'no base layer yet: "squash quickstart" builds one, "squash module import FILE" takes one in',
  });
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
