/**
 * The JSON of an image: indexes, manifests, configurations, and docker-archive's own list. All of it is anybody's word: sizes are
 * bounded before it is read, unknown keys are passed over, and what is used is checked.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { AppError } from '@squash/contract/errors';
import type { ImageDefaults } from '@squash/contract/image';
import { digestPattern } from '@squash/contract/image-reference';
import { limits } from '@squash/contract/limits';
import { safeParse } from '@squash/contract/safe-parse';

const digestSchema = z.string().regex(digestPattern, { error: 'is no sha256 digest' });

const platformSchema = z.object({
  architecture: z.string(),
  os: z.string(),
  variant: z.string().optional(),
});

const descriptorSchema = z.object({
  mediaType: z.string().optional(),
  digest: digestSchema,
  size: z.int().min(0),
  platform: platformSchema.nullish(),
  annotations: z.record(z.string(), z.string()).nullish(),
});
export type Descriptor = z.infer<typeof descriptorSchema>;

const indexSchema = z.object({ manifests: z.array(descriptorSchema).max(10_000) });
const manifestSchema = z.object({
  config: descriptorSchema,
  layers: z.array(descriptorSchema).max(limits.imageLayersReadMax),
});
export type Manifest = z.infer<typeof manifestSchema>;

const words = z.array(z.string()).nullish();
const configSchema = z.object({
  architecture: z.string(),
  os: z.string(),
  created: z.string().nullish(),
  config: z
    .object({
      User: z.string().nullish(),
      Env: words,
      Entrypoint: words,
      Cmd: words,
      WorkingDir: z.string().nullish(),
      Labels: z.record(z.string(), z.string()).nullish(),
    })
    .nullish(),
  rootfs: z.object({
    type: z.literal('layers'),
    diff_ids: z.array(digestSchema).max(limits.imageLayersReadMax),
  }),
});

export const dockerListSchema = z
  .array(
    z.object({
      Config: z.string(),
      RepoTags: z.array(z.string()).nullish(),
      Layers: z.array(z.string()).max(limits.imageLayersReadMax),
    }),
  )
  .min(1)
  .max(10_000);

/** Of an image, what is the same wherever it came from. */
export interface ImageConfig {
  /** `sha256:…` of its bytes. */
  readonly id: string;
  readonly architecture: string;
  readonly createdAt: string | null;
  /** `sha256:…` of the layers' tars, lowest first. */
  readonly diffIds: readonly string[];
  readonly defaults: Omit<ImageDefaults, 'uid' | 'gid' | 'home'>;
}

export function invalid(what: string, cause?: unknown): AppError {
  return new AppError('image_invalid', `Cannot use the image: ${what}`, { cause });
}

export function unsupported(what: string): AppError {
  return new AppError('image_unsupported', `Cannot use the image: ${what}`);
}

export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

export function parseJson<T>(schema: z.ZodType<T>, bytes: Buffer, what: string): T {
  let value: unknown;
  try {
    value = JSON.parse(bytes.toString('utf8'));
  } catch (cause) {
    throw invalid(`${what} is no JSON`, cause);
  }
  const parsed = safeParse(schema, value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalid(`${what} is malformed: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`, parsed.error);
}

/** A manifest, or an index in which one is to be chosen. @throws image_invalid, image_unsupported */
export function parseManifest(
  bytes: Buffer,
): { readonly manifest: Manifest } | { readonly index: readonly Descriptor[] } {
  const kind = parseJson(
    z.object({
      schemaVersion: z.unknown().optional(),
      manifests: z.unknown().optional(),
      config: z.unknown().optional(),
    }),
    bytes,
    'the manifest',
  );
  if (kind.schemaVersion === 1)
    throw unsupported('its manifest has Docker’s old schema 1: push it again with a tool of today');
  // An attempt to be read as one by some and as the other by others.
  if (kind.manifests !== undefined && kind.config !== undefined)
    throw invalid('its manifest is an index as well');
  if (kind.manifests !== undefined) return { index: parseJson(indexSchema, bytes, 'the index').manifests };
  return { manifest: parseJson(manifestSchema, bytes, 'the manifest') };
}

/** As images call this machine's processor. */
export const ownArchitecture =
  { x64: 'amd64', arm64: 'arm64' }[process.arch as 'x64' | 'arm64'] ?? process.arch;

/** The one for this machine. @throws image_unsupported */
export function forThisMachine(index: readonly Descriptor[]): Descriptor {
  const fits = index.filter(
    ({ platform }) => platform?.os === 'linux' && platform.architecture === ownArchitecture,
  );
  const best =
    fits.find(({ platform }) => platform?.variant === undefined || platform.variant === 'v8') ?? fits[0];
  // An index of one image that nobody has described: its configuration says what it is for.
  const only = index.length === 1 && (index[0]?.platform ?? undefined) === undefined ? index[0] : undefined;
  const found = best ?? only;
  if (found !== undefined) return found;
  const offered = index.map(({ platform }) => `${platform?.os}/${platform?.architecture}`);
  throw unsupported(
    `it is for ${[...new Set(offered)].slice(0, 16).join(', ')}, and not for linux/${ownArchitecture}`,
  );
}

/** Half of what a record may have: see `image-store.ts`. */
const recordBytesMax = 524_288;

/** @throws image_invalid, image_unsupported */
export function parseConfig(bytes: Buffer): ImageConfig {
  const { architecture, os, created, config, rootfs } = parseJson(configSchema, bytes, 'the configuration');
  if (os !== 'linux' || architecture !== ownArchitecture)
    throw unsupported(`it is for ${os}/${architecture}, and not for linux/${ownArchitecture}`);
  const defaults = {
    env: environmentOf(config?.Env ?? []),
    user: bounded('User', config?.User ?? '', 256),
    workdir: workdirOf(config?.WorkingDir ?? ''),
    entrypoint: listOf('Entrypoint', config?.Entrypoint ?? []),
    cmd: listOf('Cmd', config?.Cmd ?? []),
    labels: labelsOf(config?.Labels ?? {}),
  };
  // Each is within its bound: a control character takes six bytes of the record, and a record too long is one that nobody reads again.
  bounded('configuration', JSON.stringify(defaults), recordBytesMax);
  return {
    id: digestOf(bytes),
    architecture,
    createdAt: typeof created === 'string' ? bounded('created', created, 64) : null,
    diffIds: rootfs.diff_ids,
    defaults,
  };
}

function environmentOf(lines: readonly string[]): Record<string, string> {
  const env: Record<string, string> = {};
  for (const line of lines) {
    const equals = line.indexOf('=');
    if (equals < 1 || line.includes('\0')) throw invalid('its Env has a line that is no NAME=VALUE');
    env[line.slice(0, equals)] = line.slice(equals + 1);
  }
  const bytes = Buffer.byteLength(lines.join(''));
  if (Object.keys(env).length > limits.sandboxVariablesMax || bytes > limits.sandboxEnvironmentBytesMax)
    throw invalid(
      `its Env has more than ${limits.sandboxVariablesMax} variables or ${limits.sandboxEnvironmentBytesMax} bytes`,
    );
  return env;
}

function workdirOf(path: string): string {
  const whole = path.startsWith('/') ? path : `/${path}`;
  const names = bounded('WorkingDir', whole, 4_096)
    .split('/')
    .filter((name) => name !== '' && name !== '.');
  if (names.includes('..')) throw invalid('its WorkingDir has ".."');
  return `/${names.join('/')}`;
}

const listBytesMax = 65_536;

function listOf(what: string, list: readonly string[]): string[] {
  bounded(what, list.join(''), listBytesMax);
  if (list.length > 1_024) throw invalid(`its ${what} has ${list.length} words`);
  return [...list];
}

function labelsOf(labels: Readonly<Record<string, string>>): Record<string, string> {
  bounded('Labels', Object.entries(labels).flat().join(''), listBytesMax);
  return { ...labels };
}

function bounded(what: string, text: string, bytesMax: number): string {
  if (text.includes('\0')) throw invalid(`its ${what} has a zero byte`);
  if (Buffer.byteLength(text) > bytesMax) throw invalid(`its ${what} has more than ${bytesMax} bytes`);
  return text;
}
