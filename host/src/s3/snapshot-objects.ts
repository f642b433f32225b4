/**
 * Where snapshots lie in the bucket, and what lies beside them. What comes from there is another machine's word.
 *
 * `sandboxes/ID/snapshots/LABEL.squashfs` and `sandboxes/ID/manifest.json` are the original's. What a snapshot was taken on is in
 * `sandboxes/ID/manifests/LABEL.json`: not beside it, because the original takes whatever sorts last in that folder
 * for the newest snapshot.
 */
import { backendSchema } from '@squash/contract/backend';
import { isUsable, sandboxImageSchema } from '@squash/contract/image';
import type { SandboxId, SnapshotLabel } from '@squash/contract/ids';
import { layerDigestSchema, moduleNameSchema } from '@squash/contract/ids';
import { labelValueSchema } from '@squash/contract/labels';
import { limits } from '@squash/contract/limits';
import { z } from 'zod';
import { isAutomatic, type LocalSnapshot, type SnapshotName } from '../sandbox/remote-snapshots.ts';

export const suffix = '.squashfs';
/** Of snapshots that the daemon takes by itself so many stay there: the last one may be of a moment that nobody wants. */
export const automaticMax = 3;

/** The second one is that of the original's last version, which is only read. */
export function foldersOf(id: SandboxId): readonly [string, string] {
  return [`sandboxes/${id}/snapshots/`, `snapshots/${id}/`];
}

export function keysOf({ id, label }: SnapshotName): readonly [string, string] {
  const [own, later] = foldersOf(id);
  return [`${own}${label}${suffix}`, `${later}${label}${suffix}`];
}

/** One that lies on others: its own file. What it lies on is beside it by its digest, whatever becomes of that label. */
export function changeFolderOf(id: SandboxId): string {
  return `sandboxes/${id}/changes/`;
}

export function changeKeyOf({ id, label }: SnapshotName): string {
  return `${changeFolderOf(id)}${label}${suffix}`;
}

export function pieceKeyOf(id: SandboxId, digest: string): string {
  return `sandboxes/${id}/pieces/${digest}${suffix}`;
}

export function factsKeyOf({ id, label }: SnapshotName): string {
  return `sandboxes/${id}/manifests/${label}.json`;
}

export function sandboxKeyOf(id: SandboxId): string {
  return `sandboxes/${id}/manifest.json`;
}

/** As deep as a chain gets here, so that there is room for more on it. */
const belowMax = 15;

/** As a client may say them, and the daemon's own, which begin with `squash.`. */
const storedLabelsSchema = z
  .record(
    z
      .string()
      .max(limits.labelKeyCharsMax)
      .regex(/^[A-Za-z0-9][A-Za-z0-9_./-]*$/),
    labelValueSchema,
  )
  .refine((labels) => Object.keys(labels).length <= limits.labelsMax);

const idSchema = z.int().min(0).max(65_535).nullable();

export const snapshotFactsSchema = z.object({
  schema: z.literal(1),
  squashfs_sha256: layerDigestSchema,
  created_at: z.iso.datetime(),
  layers: z
    .array(z.strictObject({ module: moduleNameSchema, digest: layerDigestSchema }))
    .max(limits.layersMax),
  labels: storedLabelsSchema,
  /** What it lies on, the topmost first. */
  below: z.array(layerDigestSchema).max(belowMax).optional(),
  /** What its sandbox has from the image that it was made from. */
  image: sandboxImageSchema.extend({ uid: idSchema, gid: idSchema }).refine(isUsable).optional(),
  backend: backendSchema.optional(),
});
export type SnapshotFacts = z.infer<typeof snapshotFactsSchema>;

export function factsOf(
  { sandbox, snapshot, below }: LocalSnapshot,
  sha256: string,
  isShared: boolean,
): SnapshotFacts {
  const shared = isShared ? { below: below.map(({ digest }) => layerDigestSchema.parse(digest)) } : {};
  return {
    ...shared,
    schema: 1,
    squashfs_sha256: layerDigestSchema.parse(sha256),
    created_at: new Date(snapshot.createdMs).toISOString(),
    layers: [...snapshot.layers],
    labels: { ...snapshot.labels },
    ...(sandbox.image !== null && { image: sandbox.image }),
    backend: sandbox.backend,
  };
}

/** What is read of it; the original writes the rest, and reads none of it. */
export const sandboxManifestSchema = z.object({
  owner: z.string().max(256).optional(),
  latest_snapshot: z.string().nullish(),
  latest_created_at: z.iso.datetime().optional(),
  automatic: z.array(z.string()).max(64).optional(),
});
export type SandboxManifest = z.infer<typeof sandboxManifestSchema>;

/** With this snapshot as the last one, where it is. */
export function manifestWith(
  before: SandboxManifest | undefined,
  { sandbox, snapshot }: LocalSnapshot,
): SandboxManifest & Readonly<Record<string, unknown>> {
  const createdAt = new Date(snapshot.createdMs).toISOString();
  const isLast = before?.latest_created_at === undefined || before.latest_created_at <= createdAt;
  const automatic = (before?.automatic ?? []).filter((each) => each !== snapshot.label);
  return {
    id: sandbox.id,
    layers: sandbox.layers.map(({ module }) => module),
    owner: sandbox.owner,
    task: sandbox.task,
    cpu: sandbox.cpu,
    memory_mb: sandbox.memoryMb,
    max_lifetime_s: sandbox.maxLifetimeS,
    allow_net: sandbox.allowNet,
    latest_snapshot: isLast ? snapshot.label : before.latest_snapshot,
    latest_created_at: isLast ? createdAt : before.latest_created_at,
    // Their labels begin with their time.
    automatic: isAutomatic(snapshot) ? [...automatic, snapshot.label].sort() : automatic,
  };
}

export function whatOf({ id, label }: { readonly id: SandboxId; readonly label: SnapshotLabel }): string {
  return `snapshot "${label}" of sandbox "${id}"`;
}
