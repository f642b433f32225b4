/**
 * What a sandbox is on the wire: the create request and `SandboxInfo`, seed dialect with HEAD's fields added.
 *
 * `/cgi-bin` tolerates unknown keys with a warning (old clients send fields of parts that do not exist yet);
 * the parsed request is exact.
 */
import { z } from 'zod';
import { type Backend, backendSchema } from './backend.ts';
import {
  type ModuleName,
  moduleNameSchema,
  nameCharsMax,
  type SandboxId,
  sandboxIdSchema,
  snapshotLabelSchema,
} from './ids.ts';
import { limits } from './limits.ts';
import type { NativeWish } from './native-sandbox.ts';
import { allowNetSchema, type PolicySource, policySchema } from './policy.ts';
import {
  type OwnSecrets,
  ownSecretsSchema,
  secretLimits,
  secretNameSchema,
  type SecretSubset,
} from './secrets.ts';
import { upstreamNameSchema } from './upstreams.ts';
import { mountWishSchema, type StoredMount } from './volume.ts';
import { boundedText, tolerantInteger, tolerantNumber } from './tolerant.ts';

export const snapshotInfoSchema = z.strictObject({
  label: z.string(),
  created: z.string().describe('RFC 3339, UTC'),
  size: z.int().describe('bytes of the squashfs file'),
});

export const warningSchema = z.strictObject({ code: z.string(), message: z.string() });
export type Warning = z.infer<typeof warningSchema>;

export const sandboxInfoSchema = z.strictObject({
  id: z.string(),
  owner: z.string(),
  task: z.string(),
  layers: z.array(z.string()).describe('module names, in the order they were asked for'),
  created: z.string().describe('RFC 3339, UTC'),
  last_active: z.string(),
  mounted: z.boolean().describe('true when PID 1 runs: the sandbox takes commands'),
  exec_count: z.int(),
  upper_bytes: z.int().describe('bytes the writable layer holds, at most some seconds old'),
  snapshots: z.array(snapshotInfoSchema),
  active_snapshot: z.string().nullable(),
  cpu: z.number(),
  memory_mb: z.int(),
  max_lifetime_s: z.int(),
  allow_net: z
    .array(z.string())
    .nullable()
    .describe(
      'what it may reach, as it was given; of a full policy the destinations it allows; null: everything public',
    ),
  state: z.enum(['creating', 'ready', 'paused', 'stopped', 'restarting', 'failed', 'destroying']),
  backend: backendSchema,
  warnings: z
    .array(warningSchema)
    .describe('limits the host can not enforce, fields whose part does not exist yet'),
});
export type SandboxInfo = z.infer<typeof sandboxInfoSchema>;

/** The id as the original words its refusals. */
const createIdSchema = z
  .string({
    error: (issue) =>
      issue.input === undefined || issue.input === null ? 'id required' : 'id must be a string',
  })
  .min(1, { error: 'id required', abort: true })
  .max(64, { error: 'id: 64 characters at most', abort: true })
  .refine((id) => /^[A-Za-z0-9_-]+$/.test(id), {
    error: 'id: alphanumeric/dash/underscore only',
    abort: true,
  })
  .pipe(sandboxIdSchema);

const layerNameSchema = z.string().transform((name, context) => {
  const parsed = moduleNameSchema.safeParse(name);
  if (parsed.success) return parsed.data;
  context.addIssue({ code: 'custom', message: `invalid layer name: ${name}` });
  return z.NEVER;
});

/** One comma list, or an array; neither means the default base layer. Repeated names count once. */
const layersSchema = z
  .union([z.string(), z.array(z.string())], {
    error: 'layers must be a comma-separated string or JSON array',
  })
  .transform((layers) => (typeof layers === 'string' ? layers.split(',') : layers))
  .transform((layers) => [...new Set(layers.map((name) => name.trim()).filter((name) => name !== ''))])
  .refine((layers) => layers.length <= limits.layersMax, {
    error: `layers: ${limits.layersMax} at most`,
    abort: true,
  })
  .pipe(z.array(layerNameSchema));

/**
 * The create request of `/cgi-bin`. Unknown keys pass, and the handler answers each with a warning: old clients
 * send fields of parts that do not exist yet, and a create must not fail for them nor silently drop them.
 */
export const createBodySchema = z.looseObject({
  id: createIdSchema.describe('1 to 64 letters, digits, "-" and "_"'),
  owner: boundedText('owner', limits.ownerBytesMax)
    .nullish()
    .transform((owner) => owner ?? undefined)
    .describe('whose it is; none: the owner of the key that asks, else `anon`'),
  layers: layersSchema
    .nullish()
    .transform((layers) => layers ?? [])
    .describe('module names, a comma list or an array; none: the base layer'),
  task: boundedText('task', limits.taskBytesMax)
    .nullish()
    .transform((task) => task ?? ''),
  cpu: tolerantNumber(`cpu must be a number from ${limits.cpuMin} to ${limits.cpuMax}`, {
    min: limits.cpuMin,
    max: limits.cpuMax,
  })
    .nullish()
    .transform((cpu) => cpu ?? undefined),
  memory_mb: tolerantInteger(
    `memory_mb must be a whole number from ${limits.memoryMbMin} to ${limits.memoryMbMax}`,
    { min: limits.memoryMbMin, max: limits.memoryMbMax },
  )
    .nullish()
    .transform((memory) => memory ?? undefined),
  max_lifetime_s: tolerantInteger(
    `max_lifetime_s must be a whole number from 0 (unlimited) to ${limits.lifetimeSMax}`,
    { min: 0, max: limits.lifetimeSMax },
  )
    .nullish()
    .transform((lifetime) => lifetime ?? undefined),
  allow_net: allowNetSchema
    .nullish()
    .describe(
      'hosts, `*.host`, addresses, ranges, each with an optional `:port`, or `preset:name`; `["none"]`: nothing; none or empty: everything public',
    ),
  policy: policySchema.nullish().describe('the full form of `allow_net`; one of the two'),
  secrets: z
    .array(secretNameSchema)
    .max(secretLimits.secretsMax)
    .nullish()
    .describe('names of the secrets of the installation it may use; none: all'),
  own_secrets: ownSecretsSchema
    .nullish()
    .describe(
      'secrets of this sandbox alone, by name; they take the place of the installation’s of the same name',
    ),
  upstream: upstreamNameSchema
    .nullish()
    .describe('name of the operator’s proxy that it goes out through; none: `default`, where there is one'),
  backend: backendSchema.nullish().describe('what isolates it; none: that of SQUASH_BACKEND'),
  mounts: z
    .array(mountWishSchema)
    .max(limits.mountsMax)
    .nullish()
    .describe('volumes and directories of the host that it has from its start on'),
});

/** Why a text is no name of a module or label, in the original's words; those have none for its length. */
function nameSentence(text: string): string {
  return /^(?!\.)[A-Za-z0-9_.-]+$/.test(text)
    ? `${nameCharsMax} characters at most`
    : 'alphanumeric/dash/underscore/dot only';
}

export const activateBodySchema = z.looseObject({
  module: z
    .string({ error: 'module required' })
    .min(1, { error: 'module required', abort: true })
    .transform((module, context) => {
      const parsed = moduleNameSchema.safeParse(module);
      if (parsed.success) return parsed.data;
      context.addIssue({ code: 'custom', message: `module: ${nameSentence(module)}` });
      return z.NEVER;
    }),
});

export function parseLabel(label: string, context: z.RefinementCtx) {
  const parsed = snapshotLabelSchema.safeParse(label);
  if (parsed.success) return parsed.data;
  context.addIssue({ code: 'custom', message: `label: ${nameSentence(label)}` });
  return z.NEVER;
}

export const snapshotBodySchema = z.looseObject({
  label: z
    .string({ error: `label: ${nameSentence('')}` })
    .nullish()
    .transform((label, context) => (label ? parseLabel(label, context) : undefined))
    .describe('none: YYYYMMDD-HHMMSS, UTC'),
});

export const restoreBodySchema = z.looseObject({
  label: z
    .string({ error: 'label required' })
    .min(1, { error: 'label required', abort: true })
    .transform(parseLabel),
});

export const snapshotAnswerSchema = z.strictObject({
  snapshot: z.string(),
  size: z.int().describe('bytes of the squashfs file'),
  pause_ms: z.number().describe('how long the sandbox stood still while its files were read'),
});

/** What a sandbox gets that asks for none, where the operator's ceilings allow it. */
export const askedByDefault = { cpu: 2, memoryMb: 1_024, maxLifetimeS: 0 } as const;

/** Of a sandbox for which nobody is named. */
export const ownerByDefault = 'anon';

/** A create request after the edge has parsed it. What is undefined was left to the daemon. */
export interface CreateWish
  extends Omit<CreateRequest, 'cpu' | 'memoryMb' | 'maxLifetimeS'>,
    Record<keyof typeof askedByDefault, number | undefined> {}

/** A create request whose shares are granted. */
export interface CreateRequest {
  readonly id: SandboxId;
  readonly owner: string;
  readonly task: string;
  readonly layers: readonly ModuleName[];
  readonly cpu: number;
  readonly memoryMb: number;
  readonly maxLifetimeS: number;
  readonly allowNet: readonly string[] | undefined;
  /** Instead of `allowNet`. */
  readonly policy: PolicySource | undefined;
  readonly secrets: SecretSubset;
  readonly ownSecrets: OwnSecrets;
  /** Undefined: the default one, where there is one. */
  readonly upstream: string | undefined;
  /** Undefined: the daemon’s. */
  readonly backend?: Backend | undefined;
  /** What `volumes.plan` of the engine made of the request's; none: nothing is attached. */
  readonly mounts?: readonly StoredMount[];
  /** Warnings the edge already knows (unknown or not yet supported fields). */
  readonly warnings: readonly Warning[];
  /** What only `/v1` asks for. */
  readonly native: NativeWish | undefined;
}
