/**
 * The microVM backend: a microVM is a sandbox of the namespace backend whose one program is a VMM.
 *
 * The launcher makes the same namespaces, groups, limits and network around it, with the VM module as its root and `squash-vmm` as
 * its PID 1; its upper holds one file, the guest's disk. So what has broken out of the guest and taken the VMM over is where a
 * program of an ordinary sandbox is, and everything that is not said here is as it is there. Inside the guest `squash-init` is
 * PID 1 and speaks what it always does.
 */
import { chmod, lstat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { Backend } from '@squash/contract/backend';
import { AppError } from '@squash/contract/errors';
import type { LayerDigest, SandboxId } from '@squash/contract/ids';
import type { LaunchMount } from '../../launch/launch-fields.ts';
import {
  answerMsMax,
  type DiffResult,
  type DiffSides,
  type DiskSweep,
  type DriverWarning,
  type LimitChange,
  type LimitRest,
  type MachineKind,
  type MemoryFiles,
  type MountSpec,
  type PackResult,
  type PackSource,
  type RunningSandbox,
  type SavedMachine,
  type SandboxLimits,
  type StartSpec,
  type UpperKind,
} from '../driver.ts';
import { GuestClient } from '../../guest/client.ts';
import { hasNetwork } from '../namespace/host-limits.ts';
import { launchMounts, relativeTo, upperPath } from '../namespace/launch-paths.ts';
import { NamespaceDriver, type NamespaceDriverOptions } from '../namespace/namespace-driver.ts';
import { FullDisk } from './full-disk.ts';
import { startFailure } from './guest-boot.ts';
import { settleGuest } from './guest-settle.ts';
import { type GuestUpperOptions, packGuestUpper, unpackGuestUpper } from './guest-upper.ts';
import { Acceleration, type AccelerationOptions, type KvmFinding } from './acceleration.ts';
import { isProbe, probeGuest, type ProbeHost } from './kvm-probe.ts';
import { LayerImages } from './layer-images.ts';
import { checkKind, machineKind, stillOf } from './machine-kind.ts';
import { StartTurns } from './start-turns.ts';
import { templateKind, type Templates } from './templates.ts';
import { checkRoom, emptyCopied, reachGuest, renewVm, saveVm, waitsToBeCopied } from './vm-copy.ts';
import { type RunningVm, VmForks } from './vm-fork.ts';
import { checkSize, limitVm } from './vm-limits.ts';
import { type VmFiles, VmModule } from './vm-module.ts';
import {
  guestMemoryBytes,
  image,
  isWorthSaving,
  type PlannedVm,
  planOf,
  upperFile,
  vmmLimits,
  vmWarnings,
  withEmptyDrives,
} from './vm-plan.ts';
import { type Accelerator, sharedMounts, type Vmm } from './vmm.ts';
import { ConsoleTail, startVmm, throughToGuest, type ToVmm, type VmmStart } from './vmm-channel.ts';

/** An emulated guest on a busy machine; one that hangs is given up by then. */
const bootMsMax = 120_000;

/** In the VMM's root. */
const memoryFile = '/drives/memory';
const diskFile = '/drives/disk';
/** Of a saved memory: what the devices and the lists of pages take beside it. */
const templateSlackBytes = 64 * 1_048_576;

/** The sandbox for it is there, and squash-vmm in it. */
interface BegunVm {
  readonly connect: ToVmm;
  readonly giveUp: AbortSignal;
  readonly console: ConsoleTail;
}

export interface MicrovmDriverOptions extends NamespaceDriverOptions {
  readonly vmm: Vmm;
  readonly templates: Templates;
  readonly accelerator: AccelerationOptions['wanted'];
}

export class MicrovmDriver extends NamespaceDriver {
  readonly #options: GuestUpperOptions;
  readonly #vmm: Vmm;
  readonly #module: VmModule;
  readonly #images: LayerImages;
  readonly #templates: Templates;
  readonly #forks: VmForks;
  readonly #acceleration: Acceleration;
  readonly #turns = new StartTurns();
  readonly #fullDisk: FullDisk;
  readonly #hasNetwork: boolean;
  readonly #vms = new Map<SandboxId, RunningSandbox>();
  /** Those of them that stand still. */
  readonly #still = new Set<SandboxId>();
  #starting = 0;

  constructor(options: MicrovmDriverOptions) {
    super(options);
    this.#vmm = options.vmm;
    const { dataDir, launcher, vmm } = options;
    const hasRoom = (bytes = 0): boolean => {
      const { availableBytes, markBytes } = this.room().disk;
      return availableBytes - bytes > markBytes;
    };
    this.#options = { dataDir, launcher, bytesMax: options.snapshotBytesMax, hasRoom };
    this.#module = new VmModule({
      dataDir,
      launcher,
      isUsed: () => this.#vms.size > 0 || this.#starting > 1,
    });
    this.#images = new LayerImages({
      dataDir,
      launcher,
      bytesMax: options.snapshotBytesMax * 8,
      disksMax: options.vmm.disksMax,
    });
    this.#templates = options.templates;
    this.#forks = new VmForks(dataDir, hasRoom);
    const host: ProbeHost = {
      launcher,
      upperKind: this.upperKindFor('vm'),
      connect: (running, signal) => super.connect(running, signal),
    };
    this.#acceleration = new Acceleration({
      wanted: options.accelerator,
      device: '/dev/kvm',
      probe: (module, signal) => probeGuest(host, { vmm, module, accelerator: 'kvm' }, signal),
    });
    this.#hasNetwork = hasNetwork(options.capabilities);
    const awake = (): readonly ToVmm[] =>
      [...this.#vms.values()].filter(({ id }) => !this.#still.has(id)).map((each) => this.#toVmm(each));
    this.#fullDisk = new FullDisk(vmm, () => this.room().disk, awake);
  }

  /** A guest's disk holds to its size by itself, so what holds it needs no file system of its own. */
  override upperKindFor(backend: Backend): UpperKind {
    return backend === 'vm' && this.upperKind === 'image' ? 'directory' : this.upperKind;
  }

  override checkBackend(backend: Backend, hasMounts: boolean): void {
    if (backend !== 'vm') return;
    if (hasMounts) this.#checkFiles();
    this.#module.check();
    this.#vmm.check?.();
  }

  override warnings(spec: Pick<StartSpec, 'limits' | 'upperKind' | 'backend'>): readonly DriverWarning[] {
    const found = super.warnings(spec);
    return spec.backend === 'vm' ? vmWarnings(found, spec.limits) : found;
  }

  override async start(spec: StartSpec, signal?: AbortSignal): Promise<RunningSandbox> {
    if (spec.backend !== 'vm') return await super.start(spec);
    return await this.#holding(() => this.#start(spec, signal));
  }

  /** What is known of KVM now; where it was not tried yet that begins. */
  async kvm(): Promise<KvmFinding> {
    return await this.#acceleration.finding((work) =>
      this.#holding(async () => await work(await this.#module.files())),
    );
  }

  /** The module stays meanwhile: one that is new may come to be used. */
  async #holding<T>(work: () => Promise<T>): Promise<T> {
    this.#starting += 1;
    try {
      return await work();
    } finally {
      this.#starting -= 1;
    }
  }

  /** Whose VMM runs guests on nothing but KVM: there it says itself what is wrong. */
  async #accelerator(module: VmFiles): Promise<Accelerator> {
    return this.#vmm.can.emulation ? await this.#acceleration.of(module) : 'kvm';
  }

  async #start(spec: StartSpec, signal: AbortSignal | undefined): Promise<RunningSandbox> {
    if (spec.mounts.length > 0) this.#checkFiles();
    const vm = { ...(await this.#planned(spec)), signal };
    signal?.throwIfAborted();
    const running =
      spec.memory === undefined
        ? ((await this.#startCopy(vm)) ?? (await this.#inTurn(vm, () => this.#boot(vm))))
        : await this.#startFork(vm, spec.memory);
    this.#vms.set(spec.id, running);
    return running;
  }

  async #planned(spec: StartSpec): Promise<Omit<PlannedVm, 'signal'>> {
    const [module, images, program] = await Promise.all([
      this.#module.files(),
      this.#images.of(spec.lowers),
      this.#vmm.program?.(),
    ]);
    const drives = images.map((source, at) => image(source, `/drives/l${at}`));
    const plan = planOf(spec, drives, {
      accelerator: await this.#accelerator(module),
      hasNetwork: this.#hasNetwork,
    });
    return { spec, module, program, drives, plan };
  }

  /** The processor's own guests wait for nobody. */
  async #inTurn<T>({ spec, plan, signal }: PlannedVm, work: () => Promise<T>): Promise<T> {
    return plan.accelerator === 'tcg' ? await this.#turns.take(spec.owner, work, signal) : await work();
  }

  async #boot(vm: PlannedVm): Promise<RunningSandbox> {
    return await this.#run(vm, [], async ({ connect, giveUp }) => {
      await this.#bootVmm(connect, this.#vmm.start(vm.plan), giveUp);
      (await reachGuest(connect, giveUp)).destroy();
    });
  }

  async #bootVmm(connect: ToVmm, start: VmmStart, giveUp: AbortSignal): Promise<void> {
    await startVmm(await connect(giveUp), start, giveUp);
    await this.#vmm.boot?.(start, connect, giveUp);
  }

  /** From the template of its kind, which is made where there is none. Undefined where there can't be one, or it is no good: then it boots. */
  async #startCopy(vm: PlannedVm): Promise<RunningSandbox | undefined> {
    const { spec, plan, signal } = vm;
    const { copies } = this.#vmm;
    if (spec.mounts.length > 0 || !this.#options.hasRoom()) return undefined;
    const still = stillOf(vm, copies, this.#options.dataDir);
    const make = (path: string): Promise<void> => this.#inTurn(vm, () => this.#makeTemplate(vm, still, path));
    const kind = templateKind(vm, still);
    const isMade = this.#isNew(spec) && isWorthSaving(plan, this.#vmm);
    const template = await this.#templates.get(kind, isMade ? make : undefined, signal);
    signal?.throwIfAborted();
    if (template === undefined) return undefined;
    let isAwake = false;
    try {
      return await this.#run(vm, [image(template, memoryFile)], async ({ connect, giveUp }) => {
        const start = copies.copy(plan, memoryFile);
        await startVmm(await connect(giveUp), start, giveUp);
        await copies.wake(start, connect, giveUp);
        const guest = await reachGuest(connect, giveUp);
        isAwake = true;
        await renewVm(guest, copies.words(plan), giveUp);
      });
    } catch (error) {
      signal?.throwIfAborted();
      // What went wrong later is its own: its disk, perhaps.
      if (!isAwake) await this.#templates.discard(template, error);
      return undefined;
    }
  }

  /** From what another one held. Where that does not work there is nothing else to start it from. */
  async #startFork(vm: PlannedVm, saved: NonNullable<StartSpec['memory']>): Promise<RunningSandbox> {
    const { copies } = this.#vmm;
    const { dataDir } = this.#options;
    const { memory, disk } = saved;
    checkKind(saved.machine, await machineKind(vm, copies, dataDir));
    // The VMM is not the daemon's id. Nobody else comes to where they lie.
    await Promise.all([chmod(memory, 0o644), chmod(disk, 0o644)]);
    const files = [
      image(relativeTo(dataDir, memory), memoryFile),
      image(relativeTo(dataDir, disk), diskFile),
    ];
    return await this.#run(vm, files, async ({ connect, giveUp }) => {
      const start = copies.fork(vm.plan, { memory: memoryFile, disk: diskFile });
      await startVmm(await connect(giveUp), start, giveUp);
      await copies.wake(start, connect, giveUp);
      await renewVm(await reachGuest(connect, giveUp), vm.plan.hostname, giveUp);
      await emptyCopied(this.#vmm.can.memoryFile ? [disk] : [disk, memory]);
    });
  }

  override checkMemory(backend: Backend): void {
    if (backend !== 'vm') super.checkMemory(backend);
  }

  override async saveMemory(spec: StartSpec, to: MemoryFiles, giveUp: AbortSignal): Promise<SavedMachine> {
    this.checkMemory(spec.backend);
    const vm = this.#forked(this.#running(spec.id));
    await checkSize({ vm, vmm: this.#vmm }, spec.limits, giveUp);
    const machine = await this.#kindOf(spec);
    const { upperBytesMax: diskBytes } = spec.limits;
    const held = { disk: upperFile, diskBytes, memoryBytes: guestMemoryBytes(spec.limits) };
    return { machine, stillMs: await this.#forks.save(vm, held, { to, giveUp }) };
  }

  override async checkSaved(spec: StartSpec): Promise<void> {
    if (spec.memory !== undefined) checkKind(spec.memory.machine, await this.#kindOf(spec));
  }

  async #kindOf(spec: StartSpec): Promise<MachineKind> {
    const planned = await this.#holding(() => this.#planned(spec));
    return await machineKind(planned, this.#vmm.copies, this.#options.dataDir);
  }

  #forked(running: RunningSandbox): RunningVm {
    return { id: running.id, copies: this.#vmm.copies, connect: this.#toVmm(running) };
  }

  #toVmm(running: RunningSandbox): ToVmm {
    return (giveUp) => super.connect(running, giveUp);
  }

  /** What runs in it now is the module's. Who once took its VMM over may have written other programs over those. */
  #isNew({ id, upperGeneration, makesUpper }: StartSpec): boolean {
    return makesUpper && !this.hasUpper(id, upperGeneration);
  }

  /** In the sandbox that is about to start, and that is new: to its disk nothing is written. */
  async #makeTemplate(vm: PlannedVm, still: VmmStart, path: string): Promise<void> {
    const { copies } = this.#vmm;
    const { memoryBytes } = vm.plan;
    const { dataDir, hasRoom } = this.#options;
    const bounds = { bytesMax: memoryBytes + templateSlackBytes, hasRoom };
    checkRoom(hasRoom, memoryBytes);
    await withEmptyDrives(vm, { dataDir, bytes: still.lowerBytes ?? [] }, async (empty) => {
      await this.#run(empty, [], async ({ connect, giveUp, console }) => {
        await this.#bootVmm(connect, still, giveUp);
        await console.until(waitsToBeCopied, giveUp);
        await copies.part(connect, giveUp);
        await saveVm({ connect, copies }, path, { ...bounds, giveUp });
      });
    });
    await super.stop(vm.spec.id);
  }

  /** Makes the sandbox around it, in which `begin` starts a VMM; ends it where that fails. */
  async #run(
    { spec, module, program, drives, plan, signal }: PlannedVm,
    files: readonly LaunchMount[],
    begin: (begun: BegunVm) => Promise<void>,
  ): Promise<RunningSandbox> {
    const mounts = launchMounts(sharedMounts(spec.mounts), this.#options.dataDir);
    const running = await this.startAs(
      { ...spec, limits: vmmLimits(spec.limits, this.#vmm, plan.accelerator) },
      {
        vmm: true,
        lowers: [...(program === undefined ? [] : [program]), module.root],
        mounts: [image(module.initrd, '/drives/initrd'), ...drives, ...files, ...mounts],
        vmmDevices: this.#vmm.devices?.(plan) ?? [],
      },
    );
    using console = new ConsoleTail();
    const connect = this.#toVmm(running);
    try {
      const late = AbortSignal.timeout(bootMsMax);
      const giveUp = signal === undefined ? late : AbortSignal.any([signal, late]);
      signal?.throwIfAborted();
      await console.follow(await connect(giveUp), giveUp);
      await begin({ connect, giveUp, console });
    } catch (error) {
      await super.stop(spec.id);
      signal?.throwIfAborted();
      if (error instanceof AppError && error.code === 'vm_unavailable') throw error;
      throw startFailure(error, console.lines(), spec);
    }
    return running;
  }

  /** A guest writes to its disk when it likes: what it holds in its memory is gone with the VMM. */
  override async stop(id: SandboxId, forGood = false): Promise<void> {
    const vm = this.#vms.get(id);
    this.#vms.delete(id);
    this.#still.delete(id);
    if (vm !== undefined && !forGood) await settleGuest(this.#toVmm(vm), () => this.thaw(id));
    await super.stop(id, forGood);
  }

  override async freeze(id: SandboxId): Promise<void> {
    await super.freeze(id);
    if (this.#vms.has(id)) this.#still.add(id);
  }

  override async thaw(id: SandboxId): Promise<void> {
    await super.thaw(id);
    if (this.#still.delete(id)) this.#fullDisk.lookAgain();
  }

  override async list(): Promise<readonly RunningSandbox[]> {
    const running = await super.list();
    for (const each of running) if (each.backend === 'vm' && !isProbe(each)) this.#vms.set(each.id, each);
    await this.#forks.mend([...this.#vms.values()].map((each) => this.#forked(each)));
    return running;
  }

  override async limit(id: SandboxId, change: LimitChange, giveUp: AbortSignal): Promise<LimitRest> {
    const running = this.#vms.get(id);
    if (running === undefined) return await super.limit(id, change, giveUp);
    const connect = this.#toVmm(running);
    const hold = async (limits: SandboxLimits): Promise<void> =>
      void (await super.limit(id, { ...change, limits }, giveUp));
    return await limitVm({ id, connect, vmm: this.#vmm, guest: this.#guest(running), hold }, change, giveUp);
  }

  /** A guest gets what its row says when it starts. */
  override async attachMount(id: SandboxId, mount: MountSpec): Promise<void> {
    if (!this.#vms.has(id)) await super.attachMount(id, mount);
  }

  override async connect(running: RunningSandbox, signal?: AbortSignal): Promise<Duplex> {
    await this.#forks.passed(running.id, signal);
    const stream = await super.connect(running, signal);
    if (running.backend !== 'vm') return stream;
    // A squash-vmm that stands still takes connections and answers none.
    const late = AbortSignal.timeout(answerMsMax.vm);
    try {
      return await throughToGuest(stream, signal === undefined ? late : AbortSignal.any([signal, late]));
    } catch (cause) {
      signal?.throwIfAborted();
      if (cause instanceof AppError) throw cause;
      throw new AppError('guest_failed', `The microVM "${running.id}" does not answer`, { cause });
    }
  }

  /** A guest's kernel always has something to do; what it holds back is written out later, and is another mark then. A monitor may have laid a link there. */
  override async writtenMark(source: PackSource): Promise<string | undefined> {
    if (source.backend !== 'vm') return await super.writtenMark(source);
    const disk = join(this.#options.dataDir, upperPath(source.id, source.generation), 'data', upperFile);
    const { mtimeNs } = await lstat(disk, { bigint: true });
    return `${mtimeNs}`;
  }

  override async pack(source: PackSource, hostPath: string, giveUp: AbortSignal): Promise<PackResult> {
    if (source.backend !== 'vm') return await super.pack(source, hostPath, giveUp);
    const target = relativeTo(this.#options.dataDir, hostPath);
    const guest = this.#guest(this.#running(source.id));
    const { bytes, stillMs } = await this.#awake(source.id, () =>
      packGuestUpper(guest, target, { ...this.#options, giveUp }),
    );
    return { isChange: false, hasIndex: false, bytes, pauseUs: Math.round(stillMs * 1000) };
  }

  /** Of one that runs, against what it holds now: written out as for a snapshot, and unpacked as long as that takes. */
  override async diff(sides: DiffSides, giveUp: AbortSignal): Promise<DiffResult> {
    if (sides.upper?.backend !== 'vm') return await super.diff(sides, giveUp);
    const guest = this.#guest(this.#running(sides.upper.id));
    const present = await this.#awake(sides.upper.id, () =>
      unpackGuestUpper(guest, { ...this.#options, giveUp }),
    );
    try {
      return await this.diffTrees({ ...sides, upper: undefined }, [present], giveUp);
    } finally {
      await this.#options.launcher.removeTree(present);
    }
  }

  override async sweepDisks(keep: ReadonlySet<LayerDigest>, isDry: boolean): Promise<DiskSweep> {
    const [images, templates] = await Promise.all([
      this.#images.unused(keep, isDry),
      this.#templates.unused(this.#module.isThere(), isDry),
    ]);
    const { all, swept, bytes } = templates;
    return { all: images.all + all, swept: images.swept + swept, bytes: images.bytes + bytes };
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    this.#fullDisk[Symbol.dispose]();
    await this.#acceleration[Symbol.asyncDispose]();
    await super[Symbol.asyncDispose]();
  }

  /** One that stands still goes on for this: the guest's own PID 1 holds its commands while it reads. */
  async #awake<T>(id: SandboxId, work: () => Promise<T>): Promise<T> {
    const isStill = this.#still.has(id);
    if (isStill) await this.thaw(id);
    try {
      return await work();
    } finally {
      if (isStill) await this.freeze(id);
    }
  }

  #checkFiles(): void {
    if (this.#vmm.can.files) return;
    throw new AppError(
      'vm_unsupported',
      'A microVM of this VMM has no volumes and no directories of the host: make the sandbox with backend "chroot"',
    );
  }

  #running(id: SandboxId): RunningSandbox {
    const vm = this.#vms.get(id);
    if (vm !== undefined) return vm;
    const message = `Sandbox "${id}" is a microVM that does not run, and only its own kernel reads its disk: start it`;
    throw new AppError('vm_unsupported', message);
  }

  #guest(running: RunningSandbox): GuestClient {
    const connect = (signal?: AbortSignal) => this.connect(running, signal);
    return new GuestClient({ connect, answerDeadlineMs: answerMsMax.vm });
  }
}
