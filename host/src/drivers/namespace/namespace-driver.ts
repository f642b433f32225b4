/**
 * The namespace backend: sandboxes as namespaces that `squash-launch` makes around one PID 1.
 *
 * It keeps no state of its own: what runs is what the launcher says, where an upper lies follows from id and
 * generation. So a daemon that was killed has nothing here to restore.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { Backend } from '@squash/contract/backend';
import type { Capability } from '@squash/contract/capability';
import { AppError } from '@squash/contract/errors';
import type { Problem } from '@squash/contract/daemon';
import { protocolsKnown } from '@squash/contract/guest';
import type { LayerDigest, SandboxId } from '@squash/contract/ids';
import { limits as engineLimits } from '@squash/contract/limits';
import { pause } from '@squash/base/pause';
import { readIdMap } from '@squash/base/id-map';
import { SocketDirectory } from '@squash/base/socket-directory';
import type { LaunchClient, LaunchWatch, WatchListener } from '../../launch/launch-client.ts';
import type { LaunchStart } from '../../launch/launch-fields.ts';
import { fileFields, launchApply, launchChanges, type LaunchPlace } from '../../launch/launch-changes.ts';
import { refusedByOlder } from '../../launch/older-launcher.ts';
import type {
  AppliedName,
  AppliedNames,
  ChangedPlace,
  DiffResult,
  DiffSides,
  DiskSweep,
  Driver,
  DriverWarning,
  EndedSandbox,
  HostRoom,
  HostRootSpec,
  LimitChange,
  LimitRest,
  MemoryFiles,
  SavedMachine,
  MountSpec,
  PackResult,
  PackSource,
  RunningSandbox,
  SandboxStats,
  StartSpec,
  UpperKind,
  UpperUsage,
  VolumeSpec,
} from '../driver.ts';
import { hostsFile, resolvConf } from './etc-files.ts';
import { damageProblem, diskProblem } from './disk-problem.ts';
import { HostRoomMeter } from './host-room.ts';
import {
  launchMount,
  launchMounts,
  launchPlace,
  relativeTo,
  upperOf,
  upperPath,
  volumePath,
} from './launch-paths.ts';
import { chooseUpperKind, hasNetwork, unenforced } from './host-limits.ts';

export interface NamespaceDriverOptions {
  readonly launcher: LaunchClient;
  readonly dataDir: string;
  readonly runDir: string;
  /** What `probeHost` found. */
  readonly capabilities: readonly Capability[];
  readonly upper: 'auto' | UpperKind;
  /** How long the launcher may be silent. */
  readonly hungMs: number;
  /** Relative path, host file: where a snapshot may be written. Given in bytes. */
  readonly snapshotBytesMax: number;
  /** A sandbox has connected, or asked for a name, where no egress process was. */
  readonly onRelayWaits?: () => void;
}

const launcherGone: Problem = {
  code: 'launcher_unavailable',
  message:
    'squash-launch does not answer: no sandbox can be started or stopped. Where it has ended the daemon starts again with another one within seconds, and sandboxes on their files; one that hangs is ended after a minute',
};

const helperGone: Problem = {
  code: 'helper_unavailable',
  message:
    'the privileged helper has ended or does not answer: no sandbox with an image upper can be made or started until there is another one, which `squash serve` starts within seconds; one that hangs is ended after a minute',
};

/**
 * A hundred creates at once need no hundred readings, which would take a fifth of a millisecond each: what those before
 * one are going to take is not to be seen in so short a time anyway, and counted by who asks.
 */
const roomAgeMsMax = 10;

export class NamespaceDriver implements Driver, Disposable {
  readonly upperKind: UpperKind;
  readonly hasOneId = readIdMap().isSingle;
  readonly #options: NamespaceDriverOptions;
  readonly #sockets: SocketDirectory;
  readonly #meter: HostRoomMeter;
  readonly #listeners = new Set<(ended: EndedSandbox) => void>();
  readonly #watch: LaunchWatch;
  /** Starts whose image gets no more room, because the host's disk is full. */
  readonly #short = new Set<number>();
  /** Those whose upper's file system has met errors. */
  readonly #damaged = new Map<number, SandboxId>();
  /** What ran when the launcher was last asked: a gap in the events is closed by comparing with it. */
  #known = new Map<SandboxId, number>();
  #isHelperGone = false;
  #room: { readonly atMs: number; readonly found: HostRoom } | undefined;

  constructor(options: NamespaceDriverOptions) {
    this.#options = options;
    this.upperKind = chooseUpperKind(options.upper, options.capabilities);
    this.#sockets = new SocketDirectory(options.runDir);
    this.#meter = new HostRoomMeter(options.dataDir);
    const listener: WatchListener = {
      onEvent: (change, { name, instance }) => {
        if (change === 'ended') this.#ended({ id: name, instance });
        if (change === 'upper_short') this.#short.add(instance);
        if (change === 'upper_roomy') this.#short.delete(instance);
        if (change === 'relay_waits') options.onRelayWaits?.();
        if (change === 'upper_errors') this.#damaged.set(instance, name);
      },
      onHelper: (isThere) => {
        this.#isHelperGone = !isThere;
      },
      onGap: () => {
        // Said again for each that still is.
        this.#short.clear();
        this.#damaged.clear();
        this.#isHelperGone = false;
        void this.#closeGap();
      },
    };
    this.#watch = options.launcher.watch(listener, { hungMs: options.hungMs });
  }

  /** Resolves when the launcher has ended: nothing of these namespaces can be mended from inside. */
  get launcherGone(): Promise<void> {
    return this.#watch.gone;
  }

  /** Resolves when the launcher lives and answers nothing: only who is outside can end it. */
  get launcherHung(): Promise<void> {
    return this.#watch.hung;
  }

  warnings({
    limits,
    upperKind,
  }: Pick<StartSpec, 'limits' | 'upperKind' | 'backend'>): readonly DriverWarning[] {
    return unenforced(limits, upperKind, this.#options.capabilities);
  }

  problems(): readonly Problem[] {
    const lowDisk = diskProblem(this.#options.dataDir, this.#short.size > 0);
    const helper = this.#isHelperGone ? helperGone : undefined;
    const damaged = damageProblem([...this.#damaged.values()]);
    return [this.#launcherProblem(), helper, lowDisk, damaged].filter((problem) => problem !== undefined);
  }

  async outdated(): Promise<Problem | undefined> {
    const begun = new AbortController();
    void this.#watch.begun.then(() => begun.abort());
    await pause(engineLimits.launcherLookAnswerMs, begun.signal);
    return this.#protocolProblem();
  }

  problemsOf({ id, instance }: RunningSandbox): readonly Problem[] {
    const damage = damageProblem(this.#damaged.has(instance) ? [id] : []);
    return damage === undefined ? [] : [damage];
  }

  room(): HostRoom {
    const now = performance.now();
    if (this.#room === undefined || now - this.#room.atMs > roomAgeMsMax) {
      this.#room = { atMs: now, found: this.#meter.read() };
    }
    return this.#room.found;
  }

  upperKindFor(_backend: Backend): UpperKind {
    return this.upperKind;
  }

  checkBackend(backend: Backend, _hasMounts: boolean): void {
    if (backend === 'vm') throw new AppError('vm_unavailable', 'This daemon makes no microVMs');
  }

  async createUpper(spec: Pick<StartSpec, 'id' | 'upperKind' | 'upperGeneration' | 'limits'>): Promise<void> {
    await this.#options.launcher.createUpper(upperOf(spec));
  }

  async removeUpper(id: SandboxId, generation: number): Promise<void> {
    const path = upperPath(id, generation);
    await this.#options.launcher.removeTree(path);
    // The image kind keeps a file of this name beside (or instead of) the directory.
    await this.#options.launcher.removeTree(`${path}.img`);
  }

  async upperUsage(id: SandboxId, generation: number): Promise<UpperUsage> {
    return this.#options.launcher.upperUsage({
      path: upperPath(id, generation),
      kind: this.#kindOf(id, generation),
    });
  }

  hasUpper(id: SandboxId, generation: number): boolean {
    const path = join(this.#options.dataDir, upperPath(id, generation));
    return existsSync(`${path}.img`) || (existsSync(join(path, 'data')) && existsSync(join(path, 'work')));
  }

  /** It takes milliseconds, and is not broken off: what the launcher has begun would come to be behind a stop. */
  async start(spec: StartSpec): Promise<RunningSandbox> {
    return await this.startAs(spec, {});
  }

  /** With `other` than what follows from the row. */
  protected async startAs(spec: StartSpec, other: Partial<LaunchStart>): Promise<RunningSandbox> {
    const { limits } = spec;
    await this.#options.launcher
      .start({
        name: spec.id,
        instance: spec.instance,
        hostname: spec.hostname,
        lowers: spec.lowers.map((digest) => `layers/${digest}`),
        upper: upperOf(spec),
        makesUpper: spec.makesUpper,
        mounts: launchMounts(spec.mounts, this.#options.dataDir),
        hostRoot: this.#hostRoot(spec.hostRoot),
        memoryBytesMax: limits.memoryBytesMax,
        cpuMilli: limits.cpuMilli,
        pidsMax: limits.pidsMax,
        shmBytesMax: limits.shmBytesMax,
        openFilesMax: limits.openFilesMax,
        hosts: hostsFile(spec.hostname),
        resolvConf: resolvConf(hasNetwork(this.#options.capabilities)),
        ...other,
      })
      .catch((error: unknown) => (spec.hostRoot === undefined ? Promise.reject(error) : refusedOfBox(error)));
    this.#known.set(spec.id, spec.instance);
    return { id: spec.id, instance: spec.instance, backend: spec.backend };
  }

  async stop(id: SandboxId, forGood = false): Promise<void> {
    await this.#options.launcher.stop(id, forGood);
  }

  async freeze(id: SandboxId): Promise<void> {
    await this.#options.launcher.freeze(id);
  }

  async thaw(id: SandboxId): Promise<void> {
    await this.#options.launcher.thaw(id);
  }

  async limit(id: SandboxId, { limits }: LimitChange, _giveUp: AbortSignal): Promise<LimitRest> {
    await this.#options.launcher.limit(id, limits);
    return () => Promise.resolve();
  }

  checkMemory(_backend: Backend): void {
    const message = 'Only a microVM can be saved with its memory: make the sandbox with backend "vm"';
    throw new AppError('unsupported_feature', message);
  }

  async saveMemory(
    { backend }: Pick<StartSpec, 'backend'>,
    _to: MemoryFiles,
    _giveUp: AbortSignal,
  ): Promise<SavedMachine> {
    this.checkMemory(backend);
    throw new AppError('unsupported_feature', 'Nothing saves it with its memory');
  }

  async checkSaved({ backend }: StartSpec): Promise<void> {
    this.checkMemory(backend);
  }

  async list(): Promise<readonly RunningSandbox[]> {
    const running = (await this.#options.launcher.list()).map(({ name, instance, vmm }) => ({
      id: name,
      instance,
      backend: vmm ? ('vm' as const) : ('chroot' as const),
    }));
    this.#known = new Map(running.map(({ id, instance }) => [id, instance]));
    return running;
  }

  async connect(running: RunningSandbox, signal?: AbortSignal): Promise<Duplex> {
    try {
      return await this.#sockets.connect(`g/${running.instance}.sock`, signal);
    } catch (cause) {
      signal?.throwIfAborted();
      throw new AppError('guest_failed', `PID 1 of sandbox "${running.id}" does not answer`, { cause });
    }
  }

  async attachMount(id: SandboxId, mount: MountSpec): Promise<void> {
    await this.#options.launcher.attachMount(id, launchMount(mount));
  }

  async detachMount(id: SandboxId, mount: MountSpec): Promise<void> {
    await this.#options.launcher.detachMount(id, launchMount(mount));
  }

  async createVolume(volume: VolumeSpec, { bytes, inodes }: UpperUsage): Promise<void> {
    const upper = { path: volumePath(volume), kind: volume.kind, bytesMax: bytes, inodesMax: inodes };
    await this.#options.launcher.createVolume(upper);
  }

  async copyVolume(from: VolumeSpec, to: VolumeSpec, bytesMax: number): Promise<void> {
    const place = (volume: VolumeSpec) => ({ path: volumePath(volume), kind: volume.kind });
    await this.#options.launcher.copyVolume({ from: place(from), to: place(to), bytesMax });
  }

  async stats(id: SandboxId): Promise<SandboxStats> {
    return this.#options.launcher.stats(id);
  }

  /** Where nothing has had any time of a processor nothing was written. A host that does not count it says nothing. */
  async writtenMark({ id }: PackSource): Promise<string | undefined> {
    const { cpuUs } = await this.stats(id);
    return cpuUs === 0 ? undefined : `${cpuUs}`;
  }

  async pack(source: PackSource, hostPath: string, giveUp: AbortSignal): Promise<PackResult> {
    const { dataDir } = this.#options;
    const { write, known } = source.index ?? {};
    const packed = {
      index: write === undefined ? undefined : relativeTo(dataDir, write),
      known: known === undefined ? undefined : relativeTo(dataDir, known),
      name: source.id,
      upper: {
        path: upperPath(source.id, source.generation),
        kind: this.#kindOf(source.id, source.generation),
      },
      path: relativeTo(dataDir, hostPath),
      bytesMax: this.#options.snapshotBytesMax,
    };
    return this.#options.launcher.pack(packed, giveUp);
  }

  async merge(layers: readonly LayerDigest[], hostPath: string, giveUp: AbortSignal): Promise<void> {
    const { launcher, dataDir, snapshotBytesMax } = this.#options;
    const merged = {
      lowers: layers.map((digest) => `layers/${digest}`),
      path: relativeTo(dataDir, hostPath),
      // What is larger could not be uploaded again.
      bytesMax: Math.min(layers.length * snapshotBytesMax, engineLimits.uploadBytesMax),
    };
    await launcher.merge(merged, giveUp);
  }

  async diff(sides: DiffSides, giveUp: AbortSignal): Promise<DiffResult> {
    return await this.diffTrees(sides, [], giveUp);
  }

  /** With trees on top of the newer side, relative to the data directory. */
  protected async diffTrees(
    sides: DiffSides,
    top: readonly string[],
    giveUp: AbortSignal,
  ): Promise<DiffResult> {
    const { upper, newer, older, after, entriesMax } = sides;
    const pathOf = (digest: LayerDigest): string => `layers/${digest}`;
    const asked = {
      upper:
        upper === undefined
          ? undefined
          : { path: upperPath(upper.id, upper.generation), kind: this.#kindOf(upper.id, upper.generation) },
      lowers: [...top, ...newer.map(pathOf)],
      against: older.map(pathOf),
      after,
      entriesMax,
    };
    try {
      return await this.#options.launcher.diff(asked, giveUp);
    } catch (error) {
      return refusedByOlder(error, 'compare layers');
    }
  }

  async changes(
    changed: ChangedPlace,
    page: Pick<DiffSides, 'after' | 'entriesMax'>,
    giveUp: AbortSignal,
  ): Promise<DiffResult> {
    const asked = { ...this.#launchPlace(changed), ...page };
    return await launchChanges(this.#options.launcher, asked, giveUp).catch(refusedOfBox);
  }

  async readChange(changed: ChangedPlace, path: string): Promise<Uint8Array> {
    const fields = fileFields(this.#launchPlace(changed), path);
    return await this.#options.launcher.treeFile(fields).catch(refusedOfBox);
  }

  async applyChanges(changed: ChangedPlace, names: AppliedNames): Promise<readonly AppliedName[]> {
    const asked = { ...this.#launchPlace(changed), ...names };
    return await launchApply(this.#options.launcher, asked).catch(refusedOfBox);
  }

  sweepDisks(_keep: ReadonlySet<LayerDigest>, _isDry: boolean): Promise<DiskSweep> {
    return Promise.resolve({ all: 0, swept: 0, bytes: 0 });
  }

  onExit(listener: (ended: EndedSandbox) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#watch[Symbol.asyncDispose]();
    this[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.#sockets[Symbol.dispose]();
    this.#meter[Symbol.dispose]();
  }

  /** The kind a sandbox was made with, which a later configuration does not change. */
  #kindOf(id: SandboxId, generation: number): UpperKind {
    if (existsSync(join(this.#options.dataDir, `${upperPath(id, generation)}.img`))) return 'image';
    return this.upperKind === 'image' ? 'directory' : this.upperKind;
  }

  #launchPlace({ id, generation, place }: ChangedPlace): LaunchPlace {
    return { upper: { path: upperPath(id, generation), kind: this.#kindOf(id, generation) }, place };
  }

  #hostRoot(root: HostRootSpec | undefined): LaunchStart['hostRoot'] {
    if (root === undefined) return undefined;
    return { ...root, places: root.places.map((place) => launchPlace(place, this.#options.dataDir)) };
  }

  #launcherProblem(): Problem | undefined {
    return this.#watch.isWatching() ? this.#protocolProblem() : launcherGone;
  }

  #protocolProblem(): Problem | undefined {
    const spoken = this.#watch.protocol();
    if (protocolsKnown.includes(spoken)) return undefined;
    const message = `squash-launch speaks protocol ${spoken}, which this daemon does not: end everything and start again: squash stop --all, squash serve`;
    return { code: 'launcher_outdated', message };
  }

  #ended(ended: EndedSandbox): void {
    this.#short.delete(ended.instance);
    this.#damaged.delete(ended.instance);
    if (this.#known.get(ended.id) === ended.instance) this.#known.delete(ended.id);
    for (const listener of this.#listeners) listener(ended);
  }

  /** Events may have been missed: whatever ran and runs no longer has ended. What starts meanwhile is none of it. */
  async #closeGap(): Promise<void> {
    const before = new Map(this.#known);
    let now: Set<number>;
    try {
      now = new Set((await this.#options.launcher.list()).map(({ instance }) => instance));
    } catch {
      // The launcher is away again: the next gap closes this one, too.
      return;
    }
    for (const [id, instance] of before) {
      if (!now.has(instance) && this.#known.get(id) === instance) this.#ended({ id, instance });
    }
  }
}

/** A launcher of an earlier release knows neither boxes nor their changes. */
function refusedOfBox(error: unknown): never {
  return refusedByOlder(error, 'give a sandbox the host’s files');
}
