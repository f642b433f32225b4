/**
 * The port between sandboxes and what isolates them. A driver starts, stops, pauses and packs a sandbox
 * and yields a byte stream to its PID 1; it knows nothing of the protocol spoken on that stream, and
 * nothing above it knows which driver runs.
 */
import type { Duplex } from 'node:stream';
import type { Backend } from '@squash/contract/backend';
import type { Problem } from '@squash/contract/daemon';
import type { LayerDigest, SandboxId } from '@squash/contract/ids';
import type { VolumeId } from '@squash/contract/volume';

/** What a sandbox may use. The driver enforces what the host lets it and warns about the rest. */
export interface SandboxLimits {
  readonly cpuMilli: number;
  readonly memoryBytesMax: number;
  readonly pidsMax: number;
  readonly shmBytesMax: number;
  readonly openFilesMax: number;
  readonly upperBytesMax: number;
  readonly upperInodesMax: number;
}

/** A guest's kernel and its PID 1 leave nothing to run in with less. */
export const vmMemoryBytesMin = 128 * 1_048_576;

/** What a sandbox that asks for so much may take. */
export function memoryBytesGiven(backend: Backend, asked: number): number {
  return backend === 'vm' ? Math.max(vmMemoryBytesMin, asked) : asked;
}

export type LimitChange = Readonly<Record<'limits' | 'before', SandboxLimits>>;
/** What is to be done when the row says the limits: it fails for nobody, and may take long. */
export type LimitRest = () => Promise<void>;

/** How the writable layer is kept: chosen at create, stored with the sandbox, never changed after. */
export type UpperKind = 'directory' | 'project' | 'image' | 'tmpfs';

export interface StartSpec {
  readonly id: SandboxId;
  /** Of those that have to wait for their start none waits for all of another owner's. */
  readonly owner: string;
  /** Unique per start and never used again; names the socket and the cgroup. */
  readonly instance: number;
  readonly hostname: string;
  /** Topmost first; each is a directory `layers/<digest>` made by the layer store. */
  readonly lowers: readonly LayerDigest[];
  readonly upperKind: UpperKind;
  readonly backend: Backend;
  /** Which upper: restore makes a new generation and drops the old one. */
  readonly upperGeneration: number;
  /** The sandbox is new: its upper is made with the start, if there is none. Otherwise a missing upper is `launch_failed`. */
  readonly makesUpper: boolean;
  /** Of a microVM: started for what was written in it alone, of which nothing is needed for that. */
  readonly isRead?: boolean;
  /** Those that others lie in come first. */
  readonly mounts: readonly MountSpec[];
  readonly limits: SandboxLimits;
  /** It goes on from these, of one with the same lowers and limits; its upper is new. */
  readonly memory?: (MemoryFiles & { readonly machine: MachineKind }) | undefined;
  /** The root is the host's file system as far as these show it, and `lowers` are none. */
  readonly hostRoot?: HostRootSpec | undefined;
}

/** Host paths below the data directory: what a sandbox held in a moment, in its memory and on its disk. */
export interface MemoryFiles {
  readonly memory: string;
  readonly disk: string;
}

/** What a saved memory needs to go on, by part: the same words there as here. */
export type MachineKind = Readonly<Record<string, string>>;

export interface SavedMachine {
  readonly machine: MachineKind;
  /** How long it stood still. */
  readonly stillMs: number;
}

export interface HostRootSpec {
  /** Of whoever started the daemon, in the host's numbers: commands run as him. */
  readonly uid: number;
  readonly gid: number;
  /** Parents before children, whiteouts before their overlay. */
  readonly places: readonly HostPlace[];
  /** PID 1 notes which paths commands are refused. */
  readonly tracesPaths: boolean;
  /** Programs make namespaces of their own. */
  readonly allowsNesting: boolean;
}

/** One mount of such a root; `policy/src/paths/compile.ts` says what each kind is. */
export interface HostPlace {
  readonly kind: 'bind' | 'overlay' | 'private' | 'whiteout' | 'deny' | 'file' | 'link' | 'socket' | 'device';
  readonly mode: 'ro' | 'rw';
  /** Device and inode of what was looked at, the owner of a private directory, or `-`. */
  readonly identity: string;
  /** Of a `file` below the data directory, else of the host. Absolute. */
  readonly source: string;
  readonly target: string;
}

/** A volume as it is kept: as an upper is. */
export interface VolumeSpec {
  readonly id: VolumeId;
  readonly kind: UpperKind;
}

/** As the judge found it. */
export interface HostDirectory {
  readonly path: string;
  readonly identity: string;
  /** Names in it, which are there. */
  readonly hidden: readonly string[];
  /** What is made of it where it has levels, instead of one mount. Targets are paths of the host. */
  readonly places?: readonly HostPlace[];
  /** Where the sandbox's own part of these lies: a name that no other mount has, nor had. */
  readonly part?: string;
}

/** What a sandbox sees at a path of its own. */
export type MountSpec = {
  readonly path: string;
  readonly mode: 'ro' | 'rw';
} & (
  | { readonly volume: VolumeSpec }
  /** A directory of the host; the driver attaches the one of this identity (device and inode), and no other, with `hidden` seen empty. */
  | { readonly host: HostDirectory }
);

export interface RunningSandbox {
  readonly id: SandboxId;
  readonly instance: number;
  readonly backend: Backend;
}

/** How long a PID 1 may take to answer. An emulated one on a busy machine is slow. */
export const answerMsMax: Readonly<Record<Backend, number>> = { chroot: 10_000, vm: 60_000 };

/** What there is of one that has ended. */
export type EndedSandbox = Pick<RunningSandbox, 'id' | 'instance'>;

/** A limit or a wall that this host can't give; shown to the client that created the sandbox. */
export interface DriverWarning {
  readonly code: string;
  readonly message: string;
}

export interface SandboxStats {
  readonly memoryBytes: number;
  readonly cpuUs: number;
  readonly pids: number;
  /** Count since start; a rise while a command ran is how an out-of-memory kill is recognised. */
  readonly oomKills: number;
  /** How often since start all commands were killed because the upper held more than its limit. */
  readonly upperKills: number;
}

export interface UpperUsage {
  readonly bytes: number;
  readonly inodes: number;
}

export interface PackSource {
  readonly id: SandboxId;
  readonly backend: Backend;
  readonly generation: number;
  /** Host paths: where an index of the upper is to be written, and one that was written at an earlier pack. */
  readonly index?: { readonly write: string; readonly known: string | undefined };
}

export interface PackResult {
  /** What differs from the upper that `known` was written of, and no more: to be laid on what was packed then. */
  readonly isChange: boolean;
  /** `write` has one now. */
  readonly hasIndex: boolean;
  readonly bytes: number;
  /** How long the sandbox stood still, in microseconds; 0 where it was not running. */
  readonly pauseUs: number;
}

/** A place of a sandbox whose root is the host's, and what the sandbox has written there. */
export interface ChangedPlace {
  readonly id: SandboxId;
  readonly generation: number;
  readonly place: HostPlace;
}

export interface AppliedNames {
  readonly paths: readonly string[];
  readonly changedUs: number;
  /** Also links that lead out of the place. */
  readonly outside: boolean;
  /** Also what only a look at the host tells to be git's own. */
  readonly held: boolean;
}

export interface AppliedName {
  readonly path: string;
  readonly outcome: string;
  readonly reason: string | undefined;
}

export interface DiffSides {
  readonly upper: Pick<PackSource, 'id' | 'backend' | 'generation'> | undefined;
  readonly newer: readonly LayerDigest[];
  readonly older: readonly LayerDigest[];
  readonly after: Uint8Array | undefined;
  readonly entriesMax: number;
}

export interface DiffResult {
  /** Paths are bytes that a sandbox chose, relative to its root; `fileType` is a value of the frames' `fileTypes`. */
  readonly entries: readonly {
    readonly change: string;
    readonly path: Uint8Array;
    readonly fileType: number;
    readonly mode: number;
    readonly size: number;
  }[];
  /** Behind which the next page begins; undefined: that is all. There may be few entries before it. */
  readonly next: Uint8Array | undefined;
}

export interface Stock {
  readonly totalBytes: number;
  readonly availableBytes: number;
}

/** What all sandboxes of this host share. */
export interface HostRoom {
  /** Of the host, or of the control group that Squash runs in where that has less. */
  readonly memory: Stock;
  readonly cpus: number;
  /** Of the data directory's file system, of which `markBytes` are to stay free. */
  readonly disk: Stock & { readonly markBytes: number };
}

/** Disks that are made of layers, beside their trees. */
export interface DiskSweep {
  readonly all: number;
  readonly swept: number;
  readonly bytes: number;
}

export interface Driver {
  /** The kind a new sandbox gets: the strongest the host offers, or what the configuration names. */
  readonly upperKind: UpperKind;
  /** The same, for a sandbox of this backend. */
  upperKindFor(backend: Backend): UpperKind;
  /** @throws vm_unavailable where this host can't run one of it now, vm_unsupported where it can't have mounts there */
  checkBackend(backend: Backend, hasMounts: boolean): void;
  /** Sandboxes have one user and one group id, root's. */
  readonly hasOneId: boolean;
  /** What this host can't enforce now for a sandbox of this kind; empty where everything holds. */
  warnings(spec: Pick<StartSpec, 'limits' | 'upperKind' | 'backend'>): readonly DriverWarning[];
  /** What this host does not give now, to any sandbox. */
  problems(): readonly Problem[];
  /** Where what runs is of a release that this daemon can't work with. Waits until that is known. */
  outdated(): Promise<Problem | undefined>;
  /** What the host has, and how much of it is to be had now. */
  room(): HostRoom;
  /** Of `problems`, what this sandbox has by itself. */
  problemsOf(running: RunningSandbox): readonly Problem[];
  /** Makes an empty upper of this generation. Idempotent: an upper that exists is kept. */
  createUpper(spec: Pick<StartSpec, 'id' | 'upperKind' | 'upperGeneration' | 'limits'>): Promise<void>;
  /** Whether anything of it is there. */
  hasUpper(id: SandboxId, generation: number): boolean;
  removeUpper(id: SandboxId, generation: number): Promise<void>;
  upperUsage(id: SandboxId, generation: number): Promise<UpperUsage>;
  /**
   * Returns when PID 1 accepts connections. With the signal, where a start takes seconds, whoever removes it does not wait for that.
   * @throws launch_failed, disk_full, launcher_unavailable
   */
  start(spec: StartSpec, signal?: AbortSignal): Promise<RunningSandbox>;
  /**
   * Ends every process of the sandbox and waits until all are gone. `forGood`: it will not be started on this upper
   * again. Idempotent.
   */
  stop(id: SandboxId, forGood?: boolean): Promise<void>;
  /** Every process of it stands still until `thaw`, but for PID 1 where the host has no freezer. Idempotent, as is `thaw`. */
  freeze(id: SandboxId): Promise<void>;
  thaw(id: SandboxId): Promise<void>;
  /** Other limits for one that runs. Resolves when they hold. @throws sandbox_not_ready, launch_failed, limit_below_use, vm_unsupported, guest_failed */
  limit(id: SandboxId, change: LimitChange, giveUp: AbortSignal): Promise<LimitRest>;
  /** @throws unsupported_feature, vm_unsupported where what runs can't be saved with its memory */
  checkMemory(backend: Backend): void;
  /**
   * Writes what one that runs holds to two new files, and lets it go on, also where that fails. Meanwhile it can't be reached: whoever
   * connects waits, and who was connected is cut off. @throws vm_unsupported, guest_failed, disk_full
   */
  saveMemory(saved: StartSpec, to: MemoryFiles, giveUp: AbortSignal): Promise<SavedMachine>;
  /** Of a start from a saved memory. @throws vm_unsupported where that was saved on another machine than there is */
  checkSaved(spec: StartSpec): Promise<void>;
  /** All sandboxes whose PID 1 lives, whoever started them. */
  list(): Promise<readonly RunningSandbox[]>;
  /** A byte stream to PID 1. @throws guest_failed when nobody listens */
  connect(running: RunningSandbox, signal?: AbortSignal): Promise<Duplex>;
  /** Nothing where it is attached already. @throws mount_refused, host_directory_refused, sandbox_not_ready */
  attachMount(id: SandboxId, mount: MountSpec): Promise<void>;
  /** @throws mount_busy */
  detachMount(id: SandboxId, mount: MountSpec): Promise<void>;
  /** On the disk when it resolves; where its kind holds a size, with all of its room. Idempotent. @throws disk_full */
  createVolume(volume: VolumeSpec, size: UpperUsage): Promise<void>;
  /** Copies what is in one into another, empty one. Neither is attached. */
  copyVolume(from: VolumeSpec, to: VolumeSpec, bytesMax: number): Promise<void>;
  stats(id: SandboxId): Promise<SandboxStats>;
  /** Of one that runs: another one after whatever was written there. Undefined: nobody can say. */
  writtenMark(source: PackSource): Promise<string | undefined>;
  /**
   * Freezes the sandbox, writes its upper as squashfs to `hostPath` (temp name, synced, renamed), thaws it. Where
   * `giveUp` is aborted it rejects once nothing of it goes on.
   */
  pack(source: PackSource, hostPath: string, giveUp: AbortSignal): Promise<PackResult>;
  /**
   * Writes layers, topmost first, as one squashfs to `hostPath`: what they show one on another, and what they hide of
   * those that are not among them. `giveUp` as of `pack`.
   */
  merge(layers: readonly LayerDigest[], hostPath: string, giveUp: AbortSignal): Promise<void>;
  /**
   * What the newer side shows other than the older one, by path and behind `after`: an upper, where one is named, on its
   * layers, topmost first. A sandbox that runs goes on. @throws layer_corrupt, snapshot_path_too_long, launch_failed
   */
  diff(sides: DiffSides, giveUp: AbortSignal): Promise<DiffResult>;
  /** What was written at a place, by path below it and behind `after`. @throws host_path_refused, snapshot_path_too_long */
  changes(
    changed: ChangedPlace,
    page: Pick<DiffSides, 'after' | 'entriesMax'>,
    giveUp: AbortSignal,
  ): Promise<DiffResult>;
  /** One regular file of those, not a long one. @throws host_path_refused, file_not_found, not_a_file */
  readChange(changed: ChangedPlace, path: string): Promise<Uint8Array>;
  /**
   * Brings names to the host, one after the other; `paths` are relative to the place. `changedUs`: what somebody has changed there later
   * is left; 0: nothing is. @throws host_path_refused, disk_full
   */
  applyChanges(changed: ChangedPlace, names: AppliedNames): Promise<readonly AppliedName[]>;
  /** Removes the disks of layers that are not in `keep`, or only counts them. */
  sweepDisks(keep: ReadonlySet<LayerDigest>, isDry: boolean): Promise<DiskSweep>;
  /** Called with each sandbox whose PID 1 ended, wanted or not. Returns the unsubscribe. */
  onExit(listener: (ended: EndedSandbox) => void): () => void;
}
