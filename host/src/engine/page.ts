/** Which of a list's things a page answers, and where the next page begins. */
import { AppError } from '@squash/contract/errors';
import type { LabelFilter } from '@squash/contract/labels';
import { limits } from '@squash/contract/limits';
import type { SandboxRecord, sandboxStates } from '@squash/contract/native-sandbox';
import { nativeInfoOf } from '../sandbox/info.ts';
import { hasLabels } from '../sandbox/labels.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

export interface PageQuery {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}

export interface SandboxQuery extends PageQuery {
  readonly state?: readonly (typeof sandboxStates)[number][] | undefined;
  readonly label?: LabelFilter | undefined;
  readonly name?: string | undefined;
  readonly owner?: string | undefined;
  /** Whether what this owner has is there for whoever asks. */
  readonly sees: (owner: string) => boolean;
}

export interface Page<T> {
  readonly items: T[];
  readonly next: string | null;
}

/** Where a thing stands in its list. */
interface Place {
  readonly createdMs: number;
  readonly id: string;
}

/** Newest first. One that is made or removed between two pages is in them or not; no other is missed or told twice. */
export function pageOf(all: readonly Sandbox[], query: SandboxQuery): Page<SandboxRecord> {
  const { items, next } = cutPage(
    all.filter((sandbox) => matches(sandbox, query)),
    query,
    { placeOf: ({ row }) => ({ createdMs: row.createdMs, id: row.id }), newestFirst: true },
  );
  return { items: items.map(nativeInfoOf), next };
}

/** The same for any list: by time, then by id. What has no time has 0. */
export function cutPage<T>(
  all: readonly T[],
  query: PageQuery,
  { placeOf, newestFirst = false }: { readonly placeOf: (each: T) => Place; readonly newestFirst?: boolean },
): Page<T> {
  const order = (one: Place, other: Place): number => {
    if (one.createdMs !== other.createdMs)
      return newestFirst ? other.createdMs - one.createdMs : one.createdMs - other.createdMs;
    return one.id < other.id ? -1 : one.id > other.id ? 1 : 0;
  };
  const after = query.cursor === undefined ? undefined : parseCursor(query.cursor);
  const limit = query.limit ?? limits.pageItemsDefault;
  const found = all
    .map((each) => ({ each, place: placeOf(each) }))
    .filter(({ place }) => after === undefined || order(after, place) < 0)
    .sort((one, other) => order(one.place, other.place));
  const page = found.slice(0, limit);
  const last = page.at(-1);
  return {
    items: page.map(({ each }) => each),
    next: found.length > limit && last !== undefined ? cursorOf(last.place) : null,
  };
}

function matches({ row, state }: Sandbox, query: SandboxQuery): boolean {
  return (
    query.sees(row.owner) &&
    (query.owner === undefined || query.owner === row.owner) &&
    (query.name === undefined || query.name === row.name) &&
    (query.state === undefined || query.state.includes(state.phase)) &&
    hasLabels(row.labels, query.label)
  );
}

function cursorOf({ createdMs, id }: Place): string {
  return Buffer.from(`${createdMs}.${id}`).toString('base64url');
}

function parseCursor(cursor: string): Place {
  const [, createdMs, id] = /^(\d{1,15})\.(.+)$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (createdMs === undefined || id === undefined) {
    throw new AppError('invalid_request', 'cursor: take `next` of the page before as it is');
  }
  return { createdMs: Number(createdMs), id };
}
