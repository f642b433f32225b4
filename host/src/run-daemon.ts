/**
 * The daemon behind its first steps (`main.ts`, which has the order's reasons): builds every part onto one stack and waits for a
 * signal. It is loaded when the data directory is ours and the launcher answers.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Capability } from '@squash/contract/capability';
import { limits } from '@squash/contract/limits';
import { agentsAudit, AuditLog, type AuditLogOptions } from './audit/audit-log.ts';
import { gatewaySocket, type HttpService, startHttp } from './api/serve-http.ts';
import { systemClock } from '@squash/base/clock';
import { keepCompiled } from '@squash/base/compiled';
import { exposeCollection } from '@squash/base/late-flags';
import type { Log } from '@squash/base/log';
import { restHeap } from '@squash/base/resting-heap';
import type { Config } from './config/config.ts';
import type { LoadedConfig } from './config/load.ts';
import { mallocTrimAddon } from '@squash/base/programs';
import type { NamespaceDriver } from './drivers/namespace/namespace-driver.ts';
import { MicrovmDriver, type MicrovmDriverOptions } from './drivers/microvm/microvm-driver.ts';
import { firecracker } from './drivers/microvm/firecracker.ts';
import { type FirecrackerProgram, firecrackerOf } from './drivers/microvm/firecracker-program.ts';
import { qemu } from './drivers/microvm/qemu.ts';
import { Templates } from './drivers/microvm/templates.ts';
import { vmCapabilities } from './drivers/microvm/capabilities.ts';
import { endLauncher } from './egress/end-launcher.ts';
import type { EgressNetwork } from './egress/egress-network.ts';
import type { FirstEgress } from './egress/first-egress.ts';
import { openEgress } from './egress/open-egress.ts';
import { exitAgain, exitHung, leave, sayStop } from './endings.ts';
import { IdleExit } from './http/idle-exit.ts';
import { ConnectionOwners } from './http/connection-owner.ts';
import { weakToken } from './config/listen.ts';
import { checkListen } from './http/listen.ts';
import type { LaunchClient } from './launch/launch-client.ts';
import { LocalLayerStore } from './layers/local-layer-store.ts';
import { hostDirectoriesSchema } from '@squash/contract/host-directory';
import { LocalHostRoots, readStarter } from './mounts/host-roots.ts';
import { StoredMountSources } from './mounts/mount-sources.ts';
import { surroundings } from './mounts/surroundings.ts';
import { readOperatorFile } from './egress/operator-file.ts';
import { LocalEngine, type LocalEngineOptions } from './engine/local-engine.ts';
import { HttpRegistries } from './oci/registry.ts';
import { type Gateway, startGateway } from './ssh/gateway.ts';
import { openGroups } from './open-groups.ts';
import { openState } from './store/open-state.ts';
import { Reserve } from './store/reserve.ts';
import type { UnsavedEnd } from './unsaved.ts';
import { Webhooks, type WebhooksOptions } from './webhooks/webhooks.ts';
import type { Store } from './store/store.ts';

/** What `main.ts` has begun with. */
export interface Begun {
  readonly version: string;
  /** RFC 3339. */
  readonly started: string;
  /** Resolves with the signal that asks the daemon to stop. */
  readonly stopping: Promise<string>;
  readonly stack: AsyncDisposableStack;
  readonly launcher: LaunchClient;
  readonly capabilities: Promise<readonly Capability[]>;
  /** Of the egress process. */
  readonly build: string;
  readonly egress: FirstEgress;
  readonly unsaved: UnsavedEnd;
  readonly log: Log;
}

/** The exit code. */
export async function runDaemon({ config, explained }: LoadedConfig, begun: Begun): Promise<number> {
  const { version, started, stopping, stack, launcher, build, log } = begun;
  let isServing = false;
  const left: Leftovers = { config, log, isNeeded: false, egressProcesses: [begun.egress] };
  stack.defer(() => endIdle(launcher, left));
  await checkPort(config);
  const reserve = stack.use(new Reserve(config.dataDir));
  const store = stack.use(openState(config.dataDir, reserve));
  const isFirstOfBoot = isNewBoot(config, log);
  const { network, secrets, rules } = await openEgress({ config, launcher, build, first: begun.egress, log });
  const capabilities = await begun.capabilities;
  const program = firecrackerOf(config);
  const onRelayWaits = (): void => network.want();
  const templates = new Templates(config.dataDir, log);
  const driver = stack.use(openDriver(config, { launcher, capabilities, program, templates, onRelayWaits }));
  // From here on, whoever waits for the launcher: the rest of the start has no end of its own that the keeper knows.
  const lost = lossOf(driver).then((code) => (isServing ? code : leave(log, code)));
  left.egressProcesses.push(stack.use(network));
  const engine = stack.use(
    await LocalEngine.open({
      dataDir: config.dataDir,
      store,
      driver,
      backend: config.backend,
      ...(await openLayers(config, stack, { launcher, log })),
      log,
      clock: systemClock,
      removeTree: (path) => launcher.removeTree(path),
      network,
      mounts: mountSources(config, store, hasOverlay(config, capabilities)),
      hostRoots: hostRoots(config, capabilities),
      ...boundsOf(config),
      isFirstOfBoot,
      onUnsaved: (sandboxes) => begun.unsaved.tell(sandboxes),
    }),
  );
  if (isFirstOfBoot) noteBoot(config, log);
  const owners = new ConnectionOwners(process.env);
  const ownerRow = await owners.capability(isOpenToUsers(config));
  const tokenRow = weakToken(config);
  const gateway = stack.use(await openGateway(config, log));
  const info = {
    version,
    started,
    host: async () => {
      const vmm = program === undefined ? { kvm: await driver.kvm() } : { program };
      return [...capabilities, ownerRow, ...tokenRow, ...vmCapabilities(config.dataDir, vmm)];
    },
    config: [...explained],
  };
  const egress = { rules, log: network.client, secrets };
  const agents = stack.use(openAudit(config, { log, below: agentsAudit }));
  const audit = stack.use(openAudit(config, { log, agents }));
  const webhooks = stack.use(openWebhooks(config, { store, events: engine.events, log }));
  const { events } = engine;
  const groups = stack.use(openGroups({ engine, store, rules, log, events, audit: agents }));
  const parts = { info, gateway, owners, egress, audit, webhooks, groups, log };
  const http = stack.use(await startHttp({ engine, config, ...parts }));
  await network.listensAt(http.listen);
  stack.use(restWithCollection(log));
  sayReady(http, engine, begun);
  isServing = left.isNeeded = true;
  reserve.keep();
  sayWeakDoors(ownerRow, tokenRow, log);
  await sayFirstLayer(engine, log);
  using unneeded = idleExit(config, http, engine);
  const signal = await Promise.race([stopping, lost, unneeded.idle]);
  left.isNeeded = signal !== 'idle';
  // It is started again for the next box. Once one was removed, all that a box needs was called.
  if (signal === 'idle' && engine.removed > 0) keepCompiled('host/src/main.ts');
  return typeof signal === 'number' ? leave(log, signal) : sayStop(log, signal);
}

function openDriver(
  config: LoadedConfig['config'],
  parts: Pick<MicrovmDriverOptions, 'launcher' | 'capabilities' | 'templates' | 'onRelayWaits'> & {
    /** Undefined: QEMU is the VMM. */
    readonly program: FirecrackerProgram | undefined;
  },
): MicrovmDriver {
  const { program, ...rest } = parts;
  return new MicrovmDriver({
    vmm: program === undefined ? qemu : firecracker(program),
    accelerator: config.vmAccelerator,
    ...config,
    ...rest,
    snapshotBytesMax: snapshotBytesMax(config),
  });
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

function openAudit(
  { dataDir }: Config,
  { below = '', ...parts }: Pick<AuditLogOptions, 'log' | 'agents'> & { readonly below?: string },
): AuditLog {
  return new AuditLog({ directory: join(dataDir, 'audit', below), clock: systemClock, ...parts });
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

/** The exit code that says what has become of the launcher, when it is lost. */
function lossOf(driver: NamespaceDriver): Promise<number> {
  const gone = driver.launcherGone.then(() => exitAgain);
  return Promise.race([gone, driver.launcherHung.then(() => exitHung)]);
}

/** @throws config_invalid */
function mountSources({ dataDir, runDir }: Config, store: Store, isOverlayed: boolean): StoredMountSources {
  const file = { dataDir, name: 'host-directories.json' };
  return new StoredMountSources({
    store,
    hasOverlay: isOverlayed,
    hostDirectories: readOperatorFile(file, hostDirectoriesSchema) ?? { directories: [], blocked: [] },
    surroundings: surroundings([
      dataDir,
      runDir,
      fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, ''),
    ]),
  });
}

function hostRoots(config: Config, capabilities: readonly Capability[]): LocalHostRoots {
  const { dataDir, runDir, offersHostRoot, ephemeralMs } = config;
  const starter = readStarter(process.env['SQUASHD_STARTER']);
  return new LocalHostRoots({
    isOffered: offersHostRoot,
    isEphemeral: ephemeralMs !== undefined,
    hasOverlay: hasOverlay(config, capabilities),
    starter,
    around: { own: [dataDir, runDir], home: process.env['HOME'], isRoot: starter.uid === 0 },
  });
}

function hasOverlay({ overlay }: Config, capabilities: readonly Capability[]): boolean {
  return (
    overlay !== 'fuse' && capabilities.some(({ name, state }) => name === 'kernel_overlay' && state === 'ok')
  );
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

interface Leftovers {
  readonly config: Config;
  readonly log: Log;
  /** Somebody needs what runs: it stays. */
  isNeeded: boolean;
  /** The one that the start began with, and the one that the network started. */
  readonly egressProcesses: Pick<EgressNetwork, 'endOwn'>[];
}

/** A daemon that nobody needs leaves nothing running, and neither does a start that failed: a launcher without a sandbox is nobody else's. */
async function endIdle(
  launcher: LaunchClient,
  { config: { runDir }, log, isNeeded, egressProcesses }: Leftovers,
): Promise<void> {
  try {
    if (isNeeded || (await launcher.list()).length > 0) return;
    await endLauncher(launcher, runDir, limits.egressLookAnswerMs);
    for (const egressProcess of egressProcesses) await egressProcess.endOwn();
  } catch (error) {
    // What the start failed with is told; that it could not be tidied behind it comes second.
    log.warn('daemon.untidy', { error });
  }
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

function sayReady({ socketPath, listen }: HttpService, engine: LocalEngine, { version, log }: Begun): void {
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
