/**
 * Volumes, which outlive the sandboxes they are attached to, and what a sandbox has attached.
 *
 * A volume is found by its id or its name: no name looks like an id. Two owners may have volumes of one name.
 */
import { z } from 'zod';
import { isPlainPath } from './host-directory.ts';
import { labelsSchema } from './labels.ts';
import { limits } from './limits.ts';
import { utf8Bytes } from './tolerant.ts';

export const volumeIdSchema = z
  .string()
  .regex(/^vol_[0-9a-f]{16}$/)
  .brand<'VolumeId'>();
export type VolumeId = z.infer<typeof volumeIdSchema>;

export const volumeNameSchema = z.string().regex(/^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/, {
  error: 'name: 1 to 63 small letters, digits and "-", which is neither first nor last',
});

/** What a client calls a volume: its name or its id. */
export const volumeRefSchema = z.string().regex(/^[a-z0-9_-]{1,63}$/, { error: 'volume: a name or an id' });

export const mountIdSchema = z
  .string()
  .regex(/^mnt_[0-9a-f]{16}$/, { error: 'mount: an id, as the list of mounts has it' })
  .brand<'MountId'>();
export type MountId = z.infer<typeof mountIdSchema>;

/** What the kernel has its own things at, and where nothing else is put. */
const occupied = ['/proc', '/sys', '/dev', '/etc/hosts', '/etc/resolv.conf'];

export const mountPathSchema = z
  .string()
  .refine((path) => path !== '/' && isPlainPath(path), {
    error: 'path: absolute, without ".", "..", "//" or a slash at its end, and not "/"',
  })
  .refine((path) => !occupied.some((each) => path === each || path.startsWith(`${each}/`)), {
    error: `path: not ${occupied.join(', ')} nor below them`,
  });

/** `cow`: what is written stays in the sandbox. */
const mountModeSchema = z.enum(['ro', 'cow', 'rw']);

const mountPathsMax = 64;
const masksBytesMax = 65_536;

const mountLevelSchema = z.union([
  z.enum(['hidden', 'deny', 'ro', 'cow', 'rw']),
  z.strictObject({ mask: z.string().describe('the text that stands in the file’s place') }),
]);

/** Levels of what lies in a directory of the host, as those of a host root: the longest path wins. */
export const mountPathsSchema = z
  .record(
    z.string().refine((path) => path !== '' && isPlainPath(`/${path}`), {
      error: 'paths: each is relative, without ".", "..", "//" or a slash at its end',
    }),
    mountLevelSchema,
  )
  .refine((paths) => Object.keys(paths).length <= mountPathsMax, {
    error: `paths: ${mountPathsMax} at most`,
  })
  .refine(
    (paths) =>
      Object.values(paths).reduce(
        (sum, level) => sum + (typeof level === 'string' ? 0 : utf8Bytes(level.mask)),
        0,
      ) <= masksBytesMax,
    { error: `paths: ${masksBytesMax} bytes of masks together at most` },
  );
export type MountPaths = Readonly<z.infer<typeof mountPathsSchema>>;

/** What is to be attached, in a create and on its own. */
export const mountWishSchema = z
  .strictObject({
    volume: volumeRefSchema.exactOptional().describe('name or id of a volume'),
    host: z
      .string()
      .exactOptional()
      .describe('a directory of the host that the operator’s host-directories.json allows'),
    path: mountPathSchema.describe('where it is seen in the sandbox; made where it is missing'),
    mode: mountModeSchema
      .exactOptional()
      .describe(
        'none: rw for a volume, ro for a directory of the host. `cow`, of such a directory: what is written stays in the sandbox',
      ),
    paths: mountPathsSchema
      .exactOptional()
      .describe(
        'of a directory of the host: path in it → level: `hidden`, `deny`, `ro`, `cow`, `rw`, or `{"mask": TEXT}`. The longest path wins',
      ),
  })
  .refine((wish) => (wish.volume === undefined) !== (wish.host === undefined), {
    error: 'one of volume and host',
  })
  .refine((wish) => wish.host !== undefined || (wish.mode !== 'cow' && wish.paths === undefined), {
    error: 'cow and paths are of directories of the host',
  });
export type MountWish = z.infer<typeof mountWishSchema>;

/** A mount as it is stored with its sandbox. */
export const storedMountSchema = z.strictObject({
  id: mountIdSchema,
  volume: volumeIdSchema.nullable(),
  host: z.string().nullable(),
  path: z.string(),
  mode: mountModeSchema,
  paths: mountPathsSchema.exactOptional(),
});
export type StoredMount = Readonly<z.infer<typeof storedMountSchema>>;

/** It needs a part of the sandbox’s own, which it gets at a start alone. */
export function hasLevels({ mode, paths }: MountLevels): boolean {
  return mode === 'cow' || paths !== undefined;
}

/** What it writes is the host’s. */
export function writesHost({ host, ...levels }: MountLevels & Pick<StoredMount, 'host'>): boolean {
  return host !== null && levelsOf(levels).includes('rw');
}

/** Its own, and those of what lies in it. */
export function levelsOf({ mode, paths }: MountLevels): readonly unknown[] {
  return [mode, ...Object.values(paths ?? {})];
}

interface MountLevels {
  readonly mode: StoredMount['mode'];
  readonly paths?: MountPaths | undefined;
}

export const mountInfoSchema = z.strictObject({
  id: z.string(),
  volume: z.string().nullable().describe('the volume’s id'),
  host: z.string().nullable().describe('the directory of the host'),
  path: z.string(),
  mode: mountModeSchema,
  paths: mountPathsSchema.exactOptional().describe('levels of what lies in it'),
});
export type MountInfo = z.infer<typeof mountInfoSchema>;

export const volumeBodySchema = z.strictObject({
  name: volumeNameSchema,
  size_mb: z
    .int()
    .min(limits.volumeMbMin)
    .max(limits.volumeMbMax)
    .exactOptional()
    .describe('what its files may take; refused where this host can not hold it to that'),
  labels: labelsSchema.exactOptional(),
  from: volumeRefSchema.exactOptional().describe('a volume or a snapshot of one, which is copied'),
});
export type VolumeBody = z.infer<typeof volumeBodySchema>;

export const volumeSnapshotBodySchema = z.strictObject({
  name: volumeNameSchema,
  labels: labelsSchema.exactOptional(),
});

export const volumeInfoSchema = z.strictObject({
  id: z.string(),
  name: z.string(),
  owner: z.string(),
  labels: z.record(z.string(), z.string()),
  size_mb: z.int().nullable().describe('what its files may take; null: nothing holds it'),
  snapshot_of: z
    .string()
    .nullable()
    .describe('the volume that it was taken of; a snapshot is attached read-only'),
  created_at: z.string().describe('RFC 3339, UTC'),
  attached_to: z
    .array(z.strictObject({ sandbox: z.string(), mount: z.string(), mode: z.enum(['ro', 'rw']) }))
    .describe('one sandbox for writing, or any number for reading'),
  warnings: z.array(z.strictObject({ code: z.string(), message: z.string() })),
});
export type VolumeInfo = z.infer<typeof volumeInfoSchema>;
