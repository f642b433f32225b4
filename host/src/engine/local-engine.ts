/** Puts the engine together: what its nouns share, what an earlier daemon left, and the end. */
import { join } from 'node:path';
import type { Backend } from '@squash/contract/backend';
import type { Problem, Room, Unsaved } from '@squash/contract/daemon';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { removeUnfinished } from '@squash/base/atomic-file';
import type { Clock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import type { Metric } from '@squash/base/metric';
import type { Store } from '#store/store.ts';
import { answerMsMax, type Driver } from '../drivers/driver.ts';
import { GuestClient } from '../guest/client.ts';
import { VolumePlaces } from '../mounts/volume-places.ts';
import type { LayerStore } from '../layers/layer-store.ts';
import type { Registries } from '../oci/image-source.ts';
import { ImageStore } from '../oci/image-store.ts';
import { BlobNotes } from '../oci/layer-blob.ts';
import { SandboxFiles } from '../sandbox/files.ts';
import { Semaphore, SharedLock } from '../sandbox/mailbox.ts';
import type { HostRoots } from '../sandbox/host-root.ts';
import type { MountSources } from '../sandbox/mounts.ts';
import type { SandboxNetwork } from '../sandbox/network.ts';
import { OutputBudget } from '../sandbox/output-budget.ts';
import { OutputPace } from '../sandbox/output-pace.ts';
import { recover } from '../sandbox/recover.ts';
import { type FixedLimits, newCounters, type World } from '../sandbox/world.ts';
import { LocalApprovals } from './approvals.ts';
import { Admission, type AdmissionRules } from './admission.ts';
import { type EngineBucket, LocalBucket } from './bucket.ts';
import { LocalCallers } from './callers.ts';
import type { Ceilings } from './ceilings.ts';
import { LocalContexts } from './contexts.ts';
import { engineMetrics } from './engine-metrics.ts';
import { Ephemeral } from './ephemeral.ts';
import type { Engine, EngineHealth } from './engine.ts';
import { LocalEvents } from './events.ts';
import { LocalFiles } from './files.ts';
import { LocalKeys } from './keys.ts';
import { LocalSshKeys } from './ssh-keys.ts';
import { ImageLayers, type LayerTool } from './image-layers.ts';
import { ImageLeaving, type TreeReader } from './image-leaving.ts';
import { LocalImages } from './images.ts';
import { LocalModules } from './modules.ts';
import { LocalNetwork } from './network.ts';
import { LocalOwners } from './owners.ts';
import { LocalPorts } from './ports.ts';
import { LocalProcesses } from './processes.ts';
import { Quotas } from './quotas.ts';
import { Residents } from './residents.ts';
import { ResidentSnapshots } from './resident-snapshots.ts';
import { LocalSandboxes } from './sandboxes.ts';
import { LocalSnapshots } from './snapshots.ts';
import { LocalUsage } from './usage.ts';
import { LocalChanges } from './changes.ts';
import { LocalPaths } from './paths.ts';
import { LocalVolumes } from './volumes.ts';

export interface LocalEngineOptions {
  readonly dataDir: string;
  readonly store: Store;
  readonly driver: Driver;
  readonly layers: LayerStore;
  /** undefined: there is no bucket. */
  readonly bucket?: EngineBucket | undefined;
  /** undefined: what lies here lasts. */
  readonly ephemeralMs?: number | undefined;
  /** Makes modules of images' layers. */
  readonly layerTool: LayerTool & TreeReader;
  readonly registries: Registries;
  readonly log: Log;
  readonly clock: Clock;
  /** Removes a tree below the data directory, whatever hostile code put there. */
  readonly removeTree: (path: string) => Promise<void>;
  readonly sandboxesMax: number;
  readonly ceilings: Ceilings;
  readonly admission: AdmissionRules;
  readonly requiresLimits: boolean;
  readonly network: SandboxNetwork;
  /** Volumes and directories of the host, as sandboxes are to get them. */
  readonly mounts: MountSources;
  /** The host's file system, as a sandbox may get it. */
  readonly hostRoots: HostRoots;
  /** Of sandboxes that ask for none. */
  readonly backend: Backend;
  readonly fixedLimits: FixedLimits;
  /** The machine may have lost its power since the last daemon. */
  readonly isFirstOfBoot: boolean;
  /** What ephemeral mode could not save when the engine ends, and has kept. */
  readonly onUnsaved?: (sandboxes: readonly Unsaved[]) => void;
}

const collectAfterMs = 60_000;

export class LocalEngine implements Engine, AsyncDisposable {
  readonly #world: World;
  readonly #residents = new Residents();
  readonly #admission: Admission;
  readonly #unsubscribe: () => void;
  readonly #places: VolumePlaces;
  readonly #bucket: EngineBucket | undefined;
  readonly #ephemeral: Ephemeral | undefined;
  readonly #onUnsaved: (sandboxes: readonly Unsaved[]) => void;
  #collecting: NodeJS.Timeout | undefined;
  readonly sandboxes: LocalSandboxes;
  readonly processes: LocalProcesses;
  readonly contexts: LocalContexts;
  readonly files: LocalFiles;
  readonly modules: LocalModules;
  readonly images: LocalImages;
  readonly snapshots: LocalSnapshots;
  readonly bucket: LocalBucket;
  readonly volumes: LocalVolumes;
  readonly changes: LocalChanges;
  readonly paths: LocalPaths;
  readonly network: LocalNetwork;
  readonly keys: LocalKeys;
  readonly sshKeys: LocalSshKeys;
  readonly owners: LocalOwners;
  readonly usage: LocalUsage;
  readonly events: LocalEvents;
  readonly ports: LocalPorts;
  readonly callers: LocalCallers;
  readonly approvals: LocalApprovals;

  private constructor(options: LocalEngineOptions) {
    this.events = new LocalEvents(options.store, options.clock, options.log);
    const residents = this.#residents;
    const quotas = new Quotas(options.store, residents);
    const world = worldOf(options, {
      quotas,
      events: this.events,
      checkStart: (row) => this.#admission.checkStart(row),
      bringModules: (names) => this.modules.bring(names),
    });
    this.#world = world;
    this.#bucket = options.bucket;
    this.#onUnsaved = options.onUnsaved ?? (() => undefined);
    this.#admission = new Admission(world, { residents, quotas, rules: options.admission });
    this.modules = new LocalModules(world, residents, options.bucket?.modules);
    this.#ephemeral = ephemeralOf(options, world, residents);
    this.sandboxes = new LocalSandboxes({
      ephemeral: this.#ephemeral,
      world,
      residents,
      modules: this.modules,
      admission: this.#admission,
      ceilings: options.ceilings,
      sandboxesMax: options.sandboxesMax,
      bringSnapshot: (id, label) => this.snapshots.bring(id, label),
    });
    this.files = new LocalFiles(residents);
    this.processes = new LocalProcesses(world.store, residents, this.files);
    this.contexts = new LocalContexts(this.processes, residents);
    this.snapshots = new LocalSnapshots({
      remote: world.remote,
      residents,
      modules: this.modules,
      admission: this.#admission,
      quotas,
    });
    this.images = imagesOf(options, {
      world,
      residents,
      modules: this.modules,
      snapshots: this.snapshots,
    });
    this.modules.follow(this.images);
    const isEphemeral = this.#ephemeral !== undefined;
    const { modules, snapshots } = this;
    this.bucket = new LocalBucket({
      world,
      bucket: this.#bucket,
      isEphemeral,
      residents,
      modules,
      snapshots,
    });
    const places = new VolumePlaces(options);
    this.#places = places;
    this.volumes = new LocalVolumes({ world, residents, places, quotas });
    this.changes = new LocalChanges(residents);
    this.paths = new LocalPaths(residents);
    this.network = new LocalNetwork(world.network, residents);
    this.keys = new LocalKeys(options);
    this.sshKeys = new LocalSshKeys(options);
    this.owners = new LocalOwners({ residents, keys: this.keys, quotas });
    this.usage = new LocalUsage({ ...world, residents });
    this.ports = new LocalPorts(world.store, residents);
    this.callers = new LocalCallers(world.network.callers, residents);
    this.approvals = new LocalApprovals(world, residents);
    this.#unsubscribe = world.driver.onExit((ended) => residents.peek(ended.id)?.pidOneEnded(ended.instance));
  }

  /** Takes over what an earlier daemon left. @throws launcher_unavailable, database_corrupt */
  static async open(options: LocalEngineOptions): Promise<LocalEngine> {
    const engine = new LocalEngine(options);
    if (options.isFirstOfBoot) engine.events.skipLost();
    await removeAllUnfinished(options.dataDir);
    for (const sandbox of await recover(engine.#world, options.isFirstOfBoot)) engine.#residents.add(sandbox);
    await engine.sandboxes.resumeRemovals();
    await engine.volumes.resume();
    engine.network.begin(() => engine.approvals.approved());
    engine.approvals.begin();
    engine.sandboxes.begin();
    engine.usage.begin();
    // What was only used by what is gone; a module that was replaced while no daemon ran, for example. Not at once: a daemon that is
    // started for a sandbox wants the certificates that the last one's had, fifty milliseconds of its making.
    engine.#collecting = setTimeout(() => engine.modules.collect(), collectAfterMs).unref();
    options.bucket?.snapshots.begin(new ResidentSnapshots(engine.#residents));
    engine.#ephemeral?.begin();
    return engine;
  }

  async health(): Promise<EngineHealth> {
    const modules = await this.modules.known();
    return {
      sandboxes: this.#residents.count,
      modules: modules.length,
      baseReady: modules.some((module) => module.name.startsWith('000-')),
    };
  }

  problems(): readonly Problem[] {
    return [
      ...this.#world.driver.problems(),
      ...this.#admission.problems(),
      ...this.#world.network.problems(),
      ...this.sandboxes.problems(),
      ...(this.#ephemeral?.problems() ?? []),
      ...(this.#bucket?.modules.problems() ?? []),
      ...(this.#bucket?.snapshots.problems() ?? []),
    ];
  }

  /** Sandboxes that were removed since the daemon began. */
  get removed(): number {
    return this.#world.counters.destroyed;
  }

  async metrics(): Promise<readonly Metric[]> {
    const metrics = engineMetrics(this.#world, this.#residents.all(), this.problems());
    return [...metrics, ...this.#admission.metrics(), ...this.#bucketMetrics()];
  }

  #bucketMetrics(): readonly Metric[] {
    return this.#bucket === undefined
      ? []
      : [...this.#bucket.modules.metrics(), ...this.#bucket.snapshots.metrics()];
  }

  room(): Room {
    return this.#admission.room();
  }

  /** Leaves sandboxes and commands running. Waits for operations in progress and for files being written. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.#collecting);
    const stopping = new AppError('shutting_down', 'Cannot begin or finish an operation: the daemon stops');
    this.#world.ending.abort(stopping);
    this.#onUnsaved(await this.sandboxes.endAll());
    await this.#ephemeral?.[Symbol.asyncDispose]();
    this.sandboxes[Symbol.dispose]();
    this.keys[Symbol.dispose]();
    this.usage[Symbol.dispose]();
    this.contexts[Symbol.dispose]();
    await this.images[Symbol.asyncDispose]();
    const sandboxes = this.#residents.all();
    for (const sandbox of sandboxes) sandbox.mailbox.close(stopping);
    await Promise.all(sandboxes.map((sandbox) => sandbox.mailbox.idle()));
    this.#unsubscribe();
    for (const sandbox of sandboxes) sandbox.close();
    await Promise.all([this.#world.files.settle(), this.#places.settle()]);
    this.events[Symbol.dispose]();
  }
}

function ephemeralOf(
  { ephemeralMs: intervalMs, bucket }: LocalEngineOptions,
  world: World,
  residents: Residents,
): Ephemeral | undefined {
  if (intervalMs === undefined || bucket === undefined) return undefined;
  const { modules, snapshots: remote } = bucket;
  return new Ephemeral({ world, residents, remote, modules, intervalMs });
}

function imagesOf(
  { dataDir, log, layerTool: tool, registries }: LocalEngineOptions,
  {
    world,
    residents,
    modules,
    snapshots,
  }: {
    readonly world: World;
    readonly residents: Residents;
    readonly modules: LocalModules;
    readonly snapshots: LocalSnapshots;
  },
): LocalImages {
  const layers = new ImageLayers({
    world,
    residents,
    dataDir,
    tool,
    importLayer: (path, module, provenance) => modules.importLayer(path, module, provenance),
  });
  const store = new ImageStore(dataDir, log);
  const commits = { dataDir, snapshots };
  const notes = new BlobNotes(dataDir);
  const leaving = new ImageLeaving({ world, dataDir, layers, tool, notes, modules });
  return new LocalImages({ world, residents, store, layers, registries, commits, leaving });
}

function worldOf(
  options: LocalEngineOptions,
  parts: Pick<World, 'quotas' | 'events' | 'checkStart' | 'bringModules'>,
): World {
  const { dataDir, log, removeTree, driver } = options;
  return {
    store: options.store,
    driver,
    backend: options.backend,
    layers: options.layers,
    files: new SandboxFiles({ dataDir, log, removeTree }),
    log,
    clock: options.clock,
    network: options.network,
    mounts: options.mounts,
    hostRoots: options.hostRoots,
    fixedLimits: options.fixedLimits,
    requiresLimits: options.requiresLimits,
    guestOf: (running) =>
      new GuestClient({
        connect: (signal) => driver.connect(running, signal),
        answerDeadlineMs: answerMsMax[running.backend],
      }),
    starts: { chroot: new Semaphore(limits.startsAtOnceMax), vm: new Semaphore(limits.startsAtOnceMax) },
    readers: new Set(),
    ending: new AbortController(),
    usages: new Semaphore(limits.upperUsagesAtOnceMax),
    layerLock: new SharedLock(),
    remote: options.bucket?.snapshots,
    ...parts,
    counters: newCounters(),
    pace: new OutputPace(),
    outputBudget: new OutputBudget(),
  };
}

async function removeAllUnfinished(dataDir: string): Promise<void> {
  for (const [name, depth] of [
    ['layers', 0],
    ['modules', 0],
    ['images', 1],
    ['volumes', 1],
    ['sandboxes', 1],
  ] as const)
    await removeUnfinished(join(dataDir, name), depth);
}
