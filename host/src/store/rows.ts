/**
 * What the database holds, as values; and the schemas for its JSON columns and for `sandbox.json`.
 *
 * Rows are read back through these schemas: the file lies on a disk for years and may have been edited.
 */
import { backendSchema } from '@squash/contract/backend';
import type { endReasons } from '@squash/contract/exec';
import {
  hostLabelSchema,
  layerDigestSchema,
  moduleNameSchema,
  sandboxIdSchema,
  type SnapshotLabel,
} from '@squash/contract/ids';
import { hostRootSchema } from '@squash/contract/host-root';
import { sandboxImageSchema } from '@squash/contract/image';
import type { PolicySource } from '@squash/contract/policy';
import { timeoutActions } from '@squash/contract/native-sandbox';
import { warningSchema } from '@squash/contract/sandbox';
import { secretNameSchema, secretSubsetSchema } from '@squash/contract/secrets';
import { storedMountSchema, volumeIdSchema } from '@squash/contract/volume';
import { z } from 'zod';

/**
 * A label as it is stored. `~N` behind it: the snapshot was removed, and something lies on it still. No client can say
 * such a label, so the one in front is free.
 */
const storedLabelSchema = z
  .string()
  .regex(/^(?!\.)[A-Za-z0-9_.-]+(~\d+)?$/)
  .brand<'SnapshotLabel'>();

export function isRemoved({ label }: Pick<SnapshotRow, 'label'>): boolean {
  return label.includes('~');
}

/** The name that a removed snapshot is kept under. */
export function removedLabel(label: SnapshotLabel, number: number): SnapshotLabel {
  return storedLabelSchema.parse(`${label}~${number}`);
}

const layerRefSchema = z.strictObject({ module: moduleNameSchema, digest: layerDigestSchema });
const layerRefsSchema = z.array(layerRefSchema);
/** A module as it was when the sandbox took it: another file under the same name later changes nothing. */
export type LayerRef = z.infer<typeof layerRefSchema>;

const storedLimitsSchema = z.strictObject({
  cpuMilli: z.int(),
  memoryBytesMax: z.int(),
  pidsMax: z.int(),
  shmBytesMax: z.int(),
  openFilesMax: z.int(),
  upperBytesMax: z.int(),
  upperInodesMax: z.int(),
});

/** As it was asked for: what lies where on the host is looked at anew at each start. */
const storedHostRootSchema = z.strictObject({
  /** Who commands run as, in the host's numbers. */
  uid: z.int(),
  gid: z.int(),
  root: hostRootSchema,
});
export type StoredHostRoot = Readonly<z.infer<typeof storedHostRootSchema>>;

const upperKindSchema = z.enum(['directory', 'project', 'image', 'tmpfs']);

const storedRuleSchema = z.object({
  to: z.array(z.string()),
  ports: z.array(z.string()).exactOptional(),
  methods: z.array(z.string()).exactOptional(),
  paths: z.array(z.string()).exactOptional(),
});

/**
 * The operation that a crash would interrupt, written before its first step. Recovery undoes `activate`,
 * `restore` and `snapshot` (nothing was acknowledged and the old state is whole) and completes `drop`
 * (the restore is committed, only the old upper is left to remove).
 */
const pendingSchema = z.discriminatedUnion('op', [
  z.strictObject({ op: z.literal('activate'), module: moduleNameSchema }),
  z.strictObject({ op: z.literal('restore'), label: storedLabelSchema, generation: z.int() }),
  z.strictObject({
    op: z.literal('drop'),
    generation: z.int(),
    activeSnapshot: storedLabelSchema.nullable(),
  }),
  z.strictObject({ op: z.literal('snapshot'), label: storedLabelSchema }),
]);

/**
 * By its shape alone: a word that a later version does not take any more (a preset that went) must not make the whole
 * row unreadable. The egress process refuses such a policy, and with it everything, until a good one is set.
 */
const storedPolicySchema: z.ZodType<PolicySource> = z.object({
  allow: z.array(z.union([z.string(), storedRuleSchema])),
  deny: z.array(z.union([z.string(), storedRuleSchema])),
  ask: z.array(z.union([z.string(), storedRuleSchema])).exactOptional(),
  dns: z.enum(['refuse', 'nxdomain']),
  ask_timeout_ms: z.int().exactOptional(),
});

/**
 * A sandbox that was put to rest. `paused`: it stands still; `stopped`: it has no processes. `wakes`: the first use ends
 * the rest, because nobody asked for it.
 */
const restSchema = z.strictObject({ kind: z.enum(['paused', 'stopped']), wakes: z.boolean() });

const phases = ['creating', 'ready', 'failed', 'destroying'] as const;

export const sandboxRowSchema = z.strictObject({
  id: sandboxIdSchema,
  /** In host names of its ports. Null in files of earlier versions: whoever inserts such a row makes one. */
  hostLabel: hostLabelSchema.nullable().default(null),
  owner: z.string(),
  task: z.string(),
  layers: layerRefsSchema,
  createdMs: z.int(),
  lastActiveMs: z.int(),
  cpu: z.number(),
  memoryMb: z.int(),
  maxLifetimeS: z.int(),
  /** Where the lifetime counts from; files of earlier versions have none, and count from their creation. */
  lifetimeFromMs: z.int().default(0),
  idleTimeoutS: z.int().default(0),
  onTimeout: z.enum(timeoutActions).default('destroy'),
  rest: restSchema.nullable().default(null),
  name: z.string().nullable().default(null),
  labels: z.record(z.string(), z.string()).default({}),
  /** The OCI image that it was made from. */
  image: sandboxImageSchema.nullable().default(null),
  /** Files of earlier versions have none. */
  backend: backendSchema.default('chroot'),
  /** Its root is the host's file system; then it has no layers. */
  hostRoot: storedHostRootSchema.nullable().default(null),
  /** Variables of every command. */
  env: z.record(z.string(), z.string()).default({}),
  allowNet: z.array(z.string()).nullable(),
  /** The full policy where one was given or set; else `allowNet` is it. Files of earlier versions have none. */
  policy: storedPolicySchema.nullable().default(null),
  secrets: secretSubsetSchema.default('all'),
  /** Names of its own; what they are stands in a file that only daemon and egress process read. */
  ownSecrets: z.array(secretNameSchema).default([]),
  /** Name of the operator's proxy that it goes out through; null: the default one, where there is one. */
  upstream: z.string().nullable().default(null),
  /** The trust layer it was started on last. */
  trust: layerDigestSchema.nullable().default(null),
  /** Of the request's fields. What the host can't enforce the driver says whenever somebody looks. */
  warnings: z.array(warningSchema),
  limits: storedLimitsSchema,
  upperKind: upperKindSchema,
  upperGeneration: z.int(),
  /** When the present upper was made; 0 where nobody knows. */
  upperMadeMs: z.int().default(0),
  activeSnapshot: storedLabelSchema.nullable(),
  phase: z.enum(phases),
  failure: z.string().nullable(),
  instance: z.int(),
  nextSeq: z.int(),
  /** Volumes and directories of the host that it has attached. */
  mounts: z.array(storedMountSchema).default([]),
  pending: pendingSchema.nullable(),
  revision: z.int(),
});
export type SandboxRow = Readonly<z.infer<typeof sandboxRowSchema>>;

/** What lies beside a snapshot's file: the memory of a microVM, and its disk of the same moment. */
const savedMemorySchema = z.strictObject({
  /** What it was, and whoever goes on from it is. */
  cpu: z.number(),
  memoryMb: z.int(),
  limits: storedLimitsSchema,
  trust: layerDigestSchema.nullable(),
  /** The driver's: see `MachineKind`. */
  machine: z.record(z.string(), z.string()),
  /** Of both files. */
  bytes: z.int(),
  digests: z.strictObject({ memory: layerDigestSchema, disk: layerDigestSchema }),
});
export type SavedMemory = Readonly<z.infer<typeof savedMemorySchema>>;

export const snapshotRowSchema = z.strictObject({
  label: storedLabelSchema,
  createdMs: z.int(),
  size: z.int(),
  digest: layerDigestSchema.nullable(),
  base: storedLabelSchema.nullable(),
  layers: layerRefsSchema,
  /** Files of earlier versions have none. */
  labels: z.record(z.string(), z.string()).default({}),
  memory: savedMemorySchema.nullable().default(null),
});
export type SnapshotRow = Readonly<z.infer<typeof snapshotRowSchema>>;

export const volumeRowSchema = z.strictObject({
  id: volumeIdSchema,
  owner: z.string(),
  name: z.string(),
  labels: z.record(z.string(), z.string()),
  /** Chosen when it is made, as a sandbox's upper. */
  kind: upperKindSchema,
  /** Null: nothing holds it to a size. */
  bytesMax: z.int().nullable(),
  /** Of a snapshot: the volume it was taken of, which may be gone. */
  snapshotOf: volumeIdSchema.nullable(),
  createdMs: z.int(),
  /** What is not `ready` was begun by a daemon that died, and is removed. */
  phase: z.enum(['creating', 'ready', 'removing']),
});
export type VolumeRow = Readonly<z.infer<typeof volumeRowSchema>>;

/** `process`: of `/v1`, with replayable output. */
export type ExecKind = 'exec' | 'stream' | 'job' | 'process';

/** How a process was started, as far as it is told later. */
export const storedProcessSchema = z.strictObject({
  /** Null where it was started as a shell line. */
  argv: z.array(z.string()).nullable(),
  uid: z.int(),
  gid: z.int(),
  pty: z.boolean(),
  isBackground: z.boolean(),
  stdin: z.enum(['none', 'open', 'given']),
  outputBytesMax: z.int(),
  keep: z.enum(['head', 'tail']),
});
export type StoredProcess = Readonly<z.infer<typeof storedProcessSchema>>;
export type EndReason = (typeof endReasons)[number];
/** As the database and the job log number the streams. */
export const streams = { stdout: 1, stderr: 2 } as const;
export type StreamName = keyof typeof streams;

export interface ExecRow {
  readonly key: number;
  readonly seq: number;
  readonly execId: string;
  readonly kind: ExecKind;
  readonly cmd: string;
  readonly workdir: string;
  readonly timeoutMs: number | undefined;
  readonly startedMs: number;
  readonly killWanted: boolean;
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
  readonly storedBytes: number;
  /** Of a process. */
  readonly process: StoredProcess | undefined;
  readonly tag: string | undefined;
  /** The end of its standard input was sent, or is about to be. */
  readonly stdinEnded: boolean;
  /** Undefined while the command runs. */
  readonly end: ExecEnd | undefined;
}

export interface ExecEnd {
  readonly finishedMs: number;
  readonly exitCode: number;
  readonly signal: number | undefined;
  readonly timedOut: boolean;
  readonly reason: EndReason;
}
