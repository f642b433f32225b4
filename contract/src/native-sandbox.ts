/**
 * A sandbox as `/v1` has it: what a client asks for, exact and without tolerance, and what it is told.
 *
 * What a newcomer would get wrong: the two spellings of the API are over the same sandboxes. One that was created by
 * `/cgi-bin` has no name, labels, environment or idle time-out, and shows here like any other.
 */
import { z } from 'zod';
import { backendSchema } from './backend.ts';
import { hostPathsSchema, hostRootSchema, type HostRoot } from './host-root.ts';
import {
  moduleNameSchema,
  type SandboxId,
  sandboxIdSchema,
  type SnapshotLabel,
  snapshotLabelSchema,
} from './ids.ts';
import { sandboxImageSchema, type SandboxImage } from './image.ts';
import { imageReferenceSchema } from './image-reference.ts';
import { issueSentence } from './issue-sentence.ts';
import { labelsChangeSchema, labelsSchema } from './labels.ts';
import { limits } from './limits.ts';
import { processesMin } from './processes-limit.ts';
import type { Once } from './once.ts';
import { policySchema } from './policy.ts';
import { warningSchema } from './sandbox.ts';
import { ownSecretsSchema, secretLimits, secretNameSchema, type SecretSubset } from './secrets.ts';
import { boundedText, utf8Bytes } from './tolerant.ts';
import { upstreamNameSchema } from './upstreams.ts';
import { mountWishSchema } from './volume.ts';

/** What becomes of a sandbox when its lifetime or its idle time is over. */
export const timeoutActions = ['destroy', 'pause', 'snapshot'] as const;
export type TimeoutAction = (typeof timeoutActions)[number];

const nameSchema = z
  .string()
  .min(1)
  .max(limits.sandboxNameCharsMax)
  .regex(/^[A-Za-z0-9][A-Za-z0-9 _.-]*$/, {
    error: 'name: letters, digits, " ", "_", "." and "-", beginning with a letter or digit',
  })
  .describe('for people; need not be unique');

const envSchema = z
  .record(
    z
      .string()
      .max(256)
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, { error: 'a variable’s name has letters, digits and "_"' }),
    z.string().refine((text) => !text.includes('\0'), { error: 'env must not contain NUL' }),
  )
  .refine((env) => Object.keys(env).length <= limits.sandboxVariablesMax, {
    error: `env: ${limits.sandboxVariablesMax} variables at most`,
  })
  .refine((env) => utf8Bytes(Object.entries(env).flat().join('')) <= limits.sandboxEnvironmentBytesMax, {
    error: `env: ${limits.sandboxEnvironmentBytesMax} bytes at most`,
  });

function isOfHost(input: unknown): input is { readonly host: unknown } {
  return typeof input === 'object' && input !== null && 'host' in input;
}

/** What is wrong with it: rules for the host's paths are long, and "none of these" would help nobody. */
function firstSentence({ host }: { readonly host: unknown }): string | undefined {
  const [issue] = hostRootSchema.safeParse(host, { error: issueSentence }).error?.issues ?? [];
  return issue === undefined ? undefined : `from.host: ${issue.message}`;
}

/** What the files of a new sandbox are. */
const fromSchema = z
  .union(
    [
      z.strictObject({
        layers: z
          .array(moduleNameSchema)
          .min(1)
          .max(limits.layersMax)
          .refine((layers) => new Set(layers).size === layers.length, {
            error: 'from.layers: one is named twice',
          })
          .describe('module names; the numbers they begin with say which lies on which'),
      }),
      z.strictObject({
        sandbox: sandboxIdSchema,
        snapshot: snapshotLabelSchema.optional().describe('none: its files as they are now, while it runs'),
      }),
      z.strictObject({
        host: hostRootSchema.describe(
          'the host’s file system through rules; only for callers of scope `admin`, where the daemon offers it (`SQUASH_HOST_ROOT`)',
        ),
      }),
    ],
    {
      error: ({ input }) =>
        isOfHost(input)
          ? (firstSentence(input) ?? 'from.host: {"paths": {path: level}, "user": {…}}')
          : 'from: {"layers": […]}, {"sandbox": id}, {"sandbox": id, "snapshot": label} or {"host": {…}}',
    },
  )
  .describe('none: the base layer');
export type SandboxSource = z.infer<typeof fromSchema>;

const cpuSchema = z.number().min(limits.cpuMin).max(limits.cpuMax).describe('processors');
const memorySchema = z.int().min(limits.memoryMbMin).max(limits.memoryMbMax).describe('MiB');
const lifetimeSchema = z
  .int()
  .min(1)
  .max(limits.lifetimeSMax)
  .nullable()
  .describe('seconds from the create, or from the last change of it; null: no end');
const idleSchema = z
  .int()
  .min(limits.idleTimeoutSMin)
  .max(limits.lifetimeSMax)
  .nullable()
  .describe('seconds without a command that somebody waits for, output, files, ports or work; null: none');
const timeoutActionSchema = z
  .enum(timeoutActions)
  .describe(
    'when lifetime or idle time is over. `pause`: it stands still and keeps its memory; `snapshot`: its files are saved as a snapshot and its processes end',
  );

/** The create request of `/v1`. */
export const sandboxCreateSchema = z.strictObject({
  name: nameSchema.optional(),
  owner: boundedText('owner', limits.ownerBytesMax).min(1).optional().describe('default: the key’s'),
  labels: labelsSchema.default({}),
  env: envSchema.default({}).describe('variables of every command'),
  from: fromSchema.optional(),
  cpu: cpuSchema.optional(),
  memory_mb: memorySchema.optional(),
  processes_max: z
    .int()
    .min(processesMin)
    .max(limits.sandboxPidsMax)
    .optional()
    .describe(
      `processes and threads at once; none: ${limits.sandboxPidsMax}, or as the sandbox that it is made from`,
    ),
  lifetime_s: lifetimeSchema.optional(),
  idle_timeout_s: idleSchema.optional(),
  on_timeout: timeoutActionSchema.default('destroy'),
  policy: policySchema
    .optional()
    .describe('what it may reach; none: everything public; an empty `allow`: nothing'),
  secrets: z
    .array(secretNameSchema)
    .max(secretLimits.secretsMax)
    .optional()
    .describe('names of the secrets of the installation it may use; none: all'),
  own_secrets: ownSecretsSchema.optional().describe('secrets of this sandbox alone, by name'),
  upstream: upstreamNameSchema
    .optional()
    .describe('name of the operator’s proxy that it goes out through; none: `default`, where there is one'),
  image: imageReferenceSchema
    .optional()
    .describe(
      'an OCI image as its lowest layers; `from.layers` may lie above. Callers below `admin` get images that are here already',
    ),
  mounts: z
    .array(mountWishSchema)
    .max(limits.mountsMax)
    .optional()
    .describe('volumes and directories of the host that it has from its start on'),
  backend: backendSchema
    .optional()
    .describe('what isolates it; none: as the sandbox that it is made from, else as SQUASH_BACKEND says'),
  memory: z
    .boolean()
    .optional()
    .describe(
      'with `from.sandbox`, a microVM in QEMU: the new one goes on with the processes of the other, from its memory and on its disk as they are now; with `from.snapshot`, which was taken with `memory`: as they were then',
    ),
});
export type SandboxCreate = z.infer<typeof sandboxCreateSchema>;

/** What a PATCH changes. What is left out stays as it is. */
export const sandboxChangeSchema = z.strictObject({
  name: nameSchema.nullable().optional(),
  labels: labelsChangeSchema.optional(),
  env: envSchema.optional().describe('replaces all; of commands that start from now on'),
  cpu: cpuSchema.optional(),
  memory_mb: memorySchema.optional(),
  lifetime_s: lifetimeSchema.optional(),
  idle_timeout_s: idleSchema.optional(),
  on_timeout: timeoutActionSchema.optional(),
  policy: policySchema.optional().describe('replaces it, as PUT …/policy does'),
});
export type SandboxPatch = z.infer<typeof sandboxChangeSchema>;

export const sandboxStates = [
  'creating',
  'ready',
  'paused',
  'stopped',
  'restarting',
  'failed',
  'destroying',
] as const;

/** A sandbox as `/v1` tells of it. */
export const sandboxSchema = z.strictObject({
  id: z.string(),
  name: z.string().nullable(),
  host_label: z.string().describe('its part of the host names of its ports: `<port>-<host_label>.localhost`'),
  owner: z.string(),
  labels: z.record(z.string(), z.string()),
  state: z
    .enum(sandboxStates)
    .describe('`paused`: it stands still with its processes; `stopped`: it has files and no processes'),
  failure: z.string().nullable().describe('why it does not run, where it should'),
  backend: backendSchema.describe('`chroot`: namespaces; `vm`: a kernel of its own'),
  layers: z.array(z.string()),
  image: sandboxImageSchema
    .nullable()
    .describe('the OCI image it was made from, and what its commands have from it; null: none'),
  host_paths: hostPathsSchema
    .nullable()
    .describe(
      'the levels of the host’s paths, where its root is the host’s file system; null: it has layers',
    ),
  snapshot: z.string().nullable().describe('the snapshot that it was made from or restored to last'),
  env: z.record(z.string(), z.string()),
  cpu: z.number(),
  memory_mb: z.int(),
  disk_mb: z.int().describe('what its own files may take'),
  disk_bytes: z.int().describe('what they take, at most some seconds old'),
  commands: z.int().describe('how many were started in it'),
  created_at: z.string(),
  last_active_at: z.string(),
  expires_at: z.string().nullable(),
  lifetime_s: z.int().nullable(),
  idle_timeout_s: z.int().nullable(),
  on_timeout: z.enum(timeoutActions),
  warnings: z.array(warningSchema),
});
export type SandboxRecord = z.infer<typeof sandboxSchema>;

export const sandboxPageSchema = z.strictObject({
  items: z.array(sandboxSchema),
  next: z.string().nullable().describe('`cursor` of the next page; null: there is none'),
});

/** What a create of `/v1` asks for beside what both spellings have, after the edge has parsed it. */
export interface NativeWish {
  readonly name: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  /** 0: none. */
  readonly idleTimeoutS: number;
  readonly onTimeout: TimeoutAction;
  /** Processes and threads; undefined: as many as any sandbox, or as the one has that it is made from. */
  readonly processesMax: number | undefined;
  /** Codes of warnings that refuse the create: of what was asked for and can't be held to here. */
  readonly mustHold: readonly string[];
  /** Undefined: all, or what the one has that it is made from. */
  readonly secrets: SecretSubset | undefined;
  /** The request may come again: then this sandbox is its answer. */
  readonly once: Once | undefined;
  /** Whose layers are the lowest of `layers`. */
  readonly image: SandboxImage | undefined;
  /** Its root is the host's file system, and `layers` are none. */
  readonly hostRoot: HostRoot | undefined;
  /** Instead of `layers`. */
  readonly from:
    | {
        readonly sandbox: SandboxId;
        readonly snapshot: SnapshotLabel | undefined;
        /** With its processes. */
        readonly memory: boolean;
      }
    | undefined;
}
