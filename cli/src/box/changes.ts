/** What a box has written over a directory of the host, as the commands `box diff` and `box apply` have it. */
import { isWithin, lineage } from '@squash/box/levels';
import { isGit } from '@squash/box/worktree';
import { isWork } from '@squash/contract/change-limits';
import type { Change, ChangePage } from '@squash/contract/changes';
import { limits } from '@squash/contract/limits';
import type { Call } from '../command.ts';
import { apiPath } from '../client/client.ts';
import { CliFailure, usageFailure } from '../failure.ts';
import { visible } from '../output/print.ts';
import { type BoxRecord, repositoryOf } from './record.ts';
import type { BoxDaemon } from './daemon.ts';

const marks = { added: '+', changed: '!', removed: '-' } as const;
/** As `ls -F` ends them. */
const ends = { file: '', directory: '/', symlink: '@', fifo: '|', socket: '=', device: '' } as const;

/**
 * What `--place` says, else the repository, else the only place that there is in it (what git keeps, where the rest is written itself),
 * else the only one at all: agents have their settings as copies. @throws usage
 */
export function changedPlace(box: BoxRecord, named?: string): string {
  if (named !== undefined) return named;
  const said = repositoryOf(box);
  if (said !== undefined && box.host_paths?.[said] === 'cow') return wholeOf(box.host_paths, said);
  const places = Object.entries(box.host_paths ?? {}).filter(([, level]) => level === 'cow');
  const inside = places.filter(([path]) => said !== undefined && path.startsWith(`${said}/`));
  const [only] = inside.length > 0 ? inside : places;
  if (only !== undefined && (inside.length === 1 || places.length === 1)) return only[0];
  throw usageFailure(
    only === undefined
      ? `box ${box.id} has nothing copy-on-write`
      : `box ${box.id} has several directories copy-on-write: name one with --place`,
  );
}

/** A place that lies in another of this level is a part of that one: there is one upper. */
function wholeOf(paths: Readonly<Record<string, string>>, place: string): string {
  const above = lineage(place)
    .slice(0, -1)
    .findLast((path) => Object.hasOwn(paths, path));
  return above !== undefined && paths[above] === 'cow' ? wholeOf(paths, above) : place;
}

/** What is meant where no path is said: the repository, also where it is a part of the place. */
export function wordsOf(box: BoxRecord, place: string, { flags, positionals }: Call): readonly string[] {
  const [, ...words] = positionals;
  const said = repositoryOf(box);
  const isPart = said !== undefined && said !== place && isWithin(said, place) && !flags.isSet('place');
  return words.length === 0 && isPart ? [said] : words;
}

/** All of it, a page at a time. */
export async function* changesOf({ client }: BoxDaemon, id: string, place: string): AsyncGenerator<Change> {
  let cursor: string | undefined;
  do {
    const query = { place, limit: limits.diffItemsMax, ...(cursor !== undefined && { cursor }) };
    const page: ChangePage = await client.get<ChangePage>(apiPath(['v1', 'sandboxes', id, 'changes'], query));
    yield* page.items;
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
}

/** Of those below one of these, or all; as people write them: below the place, or from where they stand. */
export function chosen(place: string, words: readonly string[], from: string): (path: string) => boolean {
  const roots = words.map((word) => below(place, word, from));
  return (path) =>
    roots.length === 0 || roots.some((root) => root === '/' || path === root || path.startsWith(`${root}/`));
}

function below(place: string, word: string, from: string): string {
  const parts: string[] = [];
  for (const part of (word.startsWith('/') ? word : `${from}/${word}`).split('/')) {
    if (part === '..') parts.pop();
    else if (part !== '' && part !== '.') parts.push(part);
  }
  const path = `/${parts.join('/')}`;
  if (path === place) return '/';
  if (path.startsWith(`${place}/`)) return path.slice(place.length);
  // Somebody who stands elsewhere writes what the list shows him.
  if (!word.startsWith('/') && !`${from}/`.startsWith(`${place}/`)) return `/${word.replace(/\/+$/, '')}`;
  throw new CliFailure('usage', `"${word}" is not below ${place}`);
}

export function changeLine({ change, path, type, mode, held }: Change): string {
  const why = held === null ? '' : `  (held back: ${visible(held)})`;
  return `${marks[change]} ${mode} ${visible(path.slice(1))}${ends[type]}${why}`;
}

/** Whether a box has written anything there that somebody may want. What can't be told is kept. @throws sandbox_not_found */
export async function hasWork(daemon: BoxDaemon, id: string, places: readonly string[]): Promise<boolean> {
  try {
    for (const place of places) {
      for await (const { path } of changesOf(daemon, id, place)) {
        if (isWork(path, isGit(place))) return true;
      }
    }
    return false;
  } catch (failure) {
    if (!(failure instanceof CliFailure) || failure.code === 'sandbox_not_found') throw failure;
    return true;
  }
}
