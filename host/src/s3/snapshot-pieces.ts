/**
 * What a snapshot in the bucket lies on: files by their digests, so that each is there once and none is ever another.
 *
 * They stay where the label goes whose snapshot they were: another machine may be about to say that it lies on them.
 */
import { fileDigest } from '@squash/base/file-digest';
import { Failure } from '@squash/base/failure';
import type { FetchedPiece, LocalPiece, LocalSnapshot, SnapshotSource } from '../sandbox/remote-snapshots.ts';
import { isAutomatic } from '../sandbox/remote-snapshots.ts';
import type { Bucket } from './bucket.ts';
import { corrupt, type Fetching, fetchFile } from './fetch-file.ts';
import { pieceKeyOf } from './snapshot-objects.ts';

/** Else it is one whole file there. Automatic ones go soon, and are alone. */
export function isShared(local: LocalSnapshot): boolean {
  return !local.isWhole && !isAutomatic(local.snapshot);
}

interface Place {
  readonly bucket: Bucket;
  readonly origin: string;
  readonly signal: AbortSignal;
}

/** Those that are not there, the lowest first. */
export async function pushPieces(place: Place, local: LocalSnapshot, source: SnapshotSource): Promise<void> {
  for (const piece of local.below.toReversed()) await pushPiece(place, { local, piece, source });
}

async function pushPiece(
  { bucket, origin, signal }: Place,
  {
    local,
    piece: { label, digest },
    source,
  }: { readonly local: LocalSnapshot; readonly piece: LocalPiece; readonly source: SnapshotSource },
): Promise<void> {
  const { id } = local.sandbox;
  const key = pieceKeyOf(local.sandbox.id, digest);
  if ((await bucket.look(key, signal))?.sha256 === digest) return;
  const file = await source.openOwn({ id, label }).catch((cause: unknown) => {
    // It may have another label since: then the whole of it is looked at again.
    throw new Failure('snapshot_changed', `snapshot "${label}" is not there by now`, { cause });
  });
  try {
    const sha256 = await fileDigest(file);
    if (sha256 !== digest) throw new Failure('snapshot_changed', `snapshot "${label}" is another one by now`);
    await bucket.write(key, { file, sha256, marks: { content: digest, origin } }, signal);
  } finally {
    await file.close();
  }
}

/** Brings them, the topmost named first, and hands them over the lowest first. */
export async function withPieces(
  fetching: Omit<Fetching<undefined>, 'key' | 'facts'> & { readonly keyOf: (digest: string) => string },
  digests: readonly string[],
  use: (pieces: readonly FetchedPiece[]) => Promise<void>,
): Promise<void> {
  const { keyOf, ...about } = fetching;
  const [digest, ...rest] = digests;
  if (digest === undefined) return await use([]);
  const facts = async () => ({ sha256: digest, facts: undefined });
  const isThere = await fetchFile({ ...about, key: keyOf(digest), facts }, async (path) => {
    await withPieces(fetching, rest, (pieces) => use([...pieces, { path, digest }]));
  });
  if (!isThere) throw corrupt(about.what, `what it lies on (${digest.slice(0, 12)}…) is not there`);
}
