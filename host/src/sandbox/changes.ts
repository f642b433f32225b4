/**
 * What a sandbox whose root is the host's has written over a directory of the host, and bringing names of it there.
 *
 * The sandbox chose the names and what they hold: its tree and the host's are walked and written by the launcher, which follows no link
 * in either. What is held back is decided here, by name.
 */
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { isWork } from '@squash/contract/change-limits';
import {
  type ChangeApplied,
  type ChangeApply,
  type ChangePage,
  changeOutcomes,
} from '@squash/contract/changes';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { heldBack } from '@squash/policy/paths/protected';
import type { ChangedPlace } from '../drivers/driver.ts';
import { differenceOf, parseCursor } from './diff.ts';
import type { Sandbox } from './sandbox.ts';

/** At 100 Hz. */
const clockTickUs = 10_000;

export interface ChangeQuery {
  readonly place: string;
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

/** @throws host_root_unsupported, host_path_refused, snapshot_path_too_long, invalid_request */
export async function listChanges(sandbox: Sandbox, query: ChangeQuery): Promise<ChangePage> {
  const { changed, hidden } = placeOf(sandbox, query.place);
  const after = query.cursor === undefined ? undefined : parseCursor(query.cursor);
  const within = isOfGit(query.place) ? '/.git' : '';
  const page = { after, entriesMax: query.limit ?? limits.diffItemsDefault };
  const { entries, next } = await sandbox.world.driver.changes(changed, page, sandbox.removal.signal);
  return {
    place: query.place,
    // What the rules hide is no change of the sandbox's: it is how they are held to.
    items: entries
      .map(differenceOf)
      .filter(({ path }) => !isHidden(hidden, path))
      .map((each) => ({ ...each, held: heldBack(`${within}${each.path}`) ?? null })),
    next: next === undefined ? null : Buffer.from(next).toString('base64url'),
  };
}

/** Whether it has written anything there that somebody may want. @throws as `listChanges` */
export async function hasWork(sandbox: Sandbox, place: string): Promise<boolean> {
  const isGit = isOfGit(place);
  let cursor: string | undefined;
  do {
    const page: ChangePage = await listChanges(sandbox, { place, limit: limits.diffItemsMax, cursor });
    if (page.items.some(({ path }) => isWork(path, isGit))) return true;
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
  return false;
}

/** @throws host_root_unsupported, host_path_refused, file_not_found, not_a_file */
export async function readChange(
  sandbox: Sandbox,
  { place, path }: { readonly place: string; readonly path: string },
): Promise<Uint8Array> {
  const { changed, hidden } = placeOf(sandbox, place);
  if (isHidden(hidden, path))
    throw new AppError('file_not_found', `The rules of sandbox "${sandbox.row.id}" hide "${path}"`);
  return await sandbox.world.driver.readChange(changed, path.slice(1));
}

/** @throws host_root_unsupported, host_path_refused, disk_full */
export async function applyChanges(sandbox: Sandbox, wish: ChangeApply): Promise<ChangeApplied> {
  const { changed, hidden } = placeOf(sandbox, wish.place);
  const verdicts = wish.paths.map((path) => ({ path, reason: whyNot(wish, hidden, path) }));
  const paths = verdicts.filter(({ reason }) => reason === undefined).map(({ path }) => path.slice(1));
  // The sandbox's own first start is the earliest that it can have read anything of the host. What file systems call now is a tick of
  // the kernel's clock behind.
  const changedUs = wish.overwrite ? 0 : sandbox.row.createdMs * 1_000 - clockTickUs;
  const names = { paths, changedUs, outside: wish.outside, held: wish.held };
  const applied = paths.length === 0 ? [] : await sandbox.world.driver.applyChanges(changed, names);
  const outcomes = new Map(applied.map((each) => [`/${each.path}`, each]));
  return {
    items: verdicts.map(({ path, reason }): ChangeApplied['items'][number] => {
      if (reason !== undefined) return { path, ...reason };
      const done = outcomes.get(path);
      return { path, outcome: outcomeOf(done?.outcome), reason: done?.reason ?? null };
    }),
  };
}

function whyNot(
  wish: ChangeApply,
  hidden: readonly string[],
  path: string,
): Omit<ChangeApplied['items'][number], 'path'> | undefined {
  if (isHidden(hidden, path)) return { outcome: 'refused', reason: 'the rules of the sandbox hide it' };
  if (hidden.some((each) => each.startsWith(`${path}/`)))
    return { outcome: 'refused', reason: 'something in it is not the sandbox’s to change' };
  const why = wish.held ? undefined : heldBack(isOfGit(wish.place) ? `/.git${path}` : path);
  return why === undefined ? undefined : { outcome: 'held', reason: why };
}

function outcomeOf(word: string | undefined): ChangeApplied['items'][number]['outcome'] {
  return changeOutcomes.find((each) => each === word) ?? 'refused';
}

/** All that lies there is git's, whatever it is called. */
function isOfGit(place: string): boolean {
  return (
    place.split('/').includes('.git') ||
    ['HEAD', 'objects', 'refs'].every(
      (name) => lstatSync(join(place, name), { throwIfNoEntry: false }) !== undefined,
    )
  );
}

/** The name itself and what lies below it. */
function isHidden(hidden: readonly string[], path: string): boolean {
  return hidden.some((each) => path === each || path.startsWith(`${each}/`));
}

/** The place as it is now, and what of it is not the sandbox's to change, relative to it. */
function placeOf(
  { row, world }: Sandbox,
  path: string,
): { readonly changed: ChangedPlace; readonly hidden: readonly string[] } {
  if (row.hostRoot === null)
    throw new AppError(
      'host_root_unsupported',
      `Sandbox "${row.id}" has no root of the host, and so no changes of it`,
    );
  const { places } = world.hostRoots.compile(row.hostRoot.root);
  const place = places.find(
    ({ kind, mode, target }) => kind === 'overlay' && mode === 'rw' && target === path,
  );
  if (place === undefined)
    throw new AppError(
      'host_path_refused',
      `Sandbox "${row.id}" does not have "${path}" at level "cow": its changes can be asked for at a path that is`,
    );
  const below = places.filter(({ target }) => target.startsWith(`${path}/`));
  return {
    changed: { id: row.id, generation: row.upperGeneration, place },
    hidden: below.map(({ target }) => target.slice(path.length)),
  };
}
