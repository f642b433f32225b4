/** Out of a sandbox to here, file by file under a temporary name; many at once as one tar of which the rest is passed over. */
import { CliFailure } from '../failure.ts';
import { readTar } from '@squash/sdk/tar-reader';
import { formatBytes } from '../output/print.ts';
import { eachOf } from '../client/each-of.ts';
import { withProgress } from '../output/progress.ts';
import { type LocalTree, localMode, type NewFile } from './local-tree.ts';
import type { Plan } from './plan.ts';
import { addressOf, type RemoteDirectory } from './remote-tree.ts';
import { parentOf, shown, type Tree, type TreeEntry } from './tree.ts';

/** Fewer are fetched one by one. */
const packedFilesMin = 32;
/** A file may grow while it is fetched, but a sandbox is not to fill the disk. */
const growthMax = 16_777_216;

interface Sides {
  readonly local: LocalTree;
  readonly from: RemoteDirectory;
  readonly tree: Tree;
}

export async function pull(plan: Plan, sides: Sides): Promise<void> {
  const { local, tree } = sides;
  if (plan.bytes > local.freeBytes) {
    throw new CliFailure(
      'disk_full',
      `the files take ${formatBytes(plan.bytes)}, and that much is not free here`,
    );
  }
  const entries = plan.send.flatMap((path) => {
    const entry = tree.entries.get(path);
    return entry === undefined ? [] : [[path, entry] as const];
  });
  const ofType = (type: TreeEntry['type']) => entries.filter(([, entry]) => entry.type === type);
  for (const path of plan.clear) local.remove(path);
  for (const [path] of ofType('directory')) local.makeDirectory(path);
  const wanted = new Map(ofType('file'));
  const packed = packedDirectory(wanted, tree);
  if (packed !== undefined) await fetchPacked(packed, wanted, sides);
  // What was not in the tar: it has gone, or it changed its kind.
  await eachOf([...wanted], async ([path, entry]) => await fetchOne(path, entry, sides));
  for (const [path, { target }] of ofType('symlink')) local.makeLink(path, target);
  for (const [path, { mode }] of ofType('directory').toReversed()) {
    local.finishDirectory(path, localMode(mode) | 0o700);
  }
  for (const path of plan.remove) local.remove(path);
}

/** The directory that holds all that is wanted, where that is not much less than all it holds. */
function packedDirectory(wanted: ReadonlyMap<string, TreeEntry>, tree: Tree): string | undefined {
  if (wanted.size < packedFilesMin) return undefined;
  const paths = [...wanted.keys()];
  let above = parentOf(paths[0] ?? '');
  while (above !== '' && !paths.every((path) => path.startsWith(`${above}/`))) above = parentOf(above);
  const cost = (entries: Iterable<readonly [string, TreeEntry]>): number =>
    Iterator.from(entries).reduce((sum, [, { size }]) => sum + size + 4_096, 0);
  const all = [...tree.entries].filter(([path]) => above === '' || path.startsWith(`${above}/`));
  return cost(all) > 4 * cost(wanted) ? undefined : above;
}

async function fetchPacked(
  above: string,
  wanted: Map<string, TreeEntry>,
  { local, from }: Sides,
): Promise<void> {
  const response = await from.client.open(addressOf(from, above, ['archive']), {});
  const body = withProgress(response.body(), { label: 'sync', bytes: undefined });
  for await (const { type, parts, content } of readTar(body, 'latin1')) {
    const name = parts.join('/');
    const path = above === '' ? name : `${above}/${name}`;
    const entry = wanted.get(path);
    if (type !== 'file' || entry === undefined) continue;
    await local.writeFile(path, newFile(path, entry, content));
    wanted.delete(path);
    if (wanted.size === 0) return;
  }
}

async function fetchOne(path: string, entry: TreeEntry, { local, from }: Sides): Promise<void> {
  const response = await from.client.open(addressOf(from, path), {}).catch((cause: unknown) => {
    // It went since the directory was read: as if it had not been there.
    if (cause instanceof CliFailure && cause.code === 'file_not_found') return undefined;
    throw cause;
  });
  if (response === undefined) return;
  await local.writeFile(path, newFile(path, entry, response.body()));
}

function newFile(path: string, entry: TreeEntry, content: AsyncIterable<Buffer>): NewFile {
  const { mode, mtimeMs } = entry;
  return { mode: localMode(mode), mtimeMs, content: bounded(content, path, entry) };
}

async function* bounded(
  content: AsyncIterable<Buffer>,
  path: string,
  { size }: TreeEntry,
): AsyncGenerator<Buffer, void, void> {
  let left = 2 * size + growthMax;
  for await (const part of content) {
    left -= part.length;
    if (left < 0)
      throw new CliFailure('archive_invalid', `"${shown(path)}" grows faster than it can be fetched`);
    yield part;
  }
}
