/** Which sandboxes a list answers, and where the next page begins. */
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { LabelFilter, SandboxRecord, sandboxStates } from '@squash/contract/native-sandbox';
import { nativeInfoOf } from '../sandbox/info.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';

export interface SandboxQuery {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
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

/** Newest first. One that is made or removed between two pages is in them or not; no other is missed or told twice. */
export function pageOf(all: readonly Sandbox[], query: SandboxQuery): Page<SandboxRecord> {
  const after = query.cursor === undefined ? undefined : placeOf(query.cursor);
  const limit = query.limit ?? limits.pageItemsDefault;
  const found = all
    .filter((sandbox) => matches(sandbox, query))
    .map((sandbox) => ({ sandbox, createdMs: sandbox.row.createdMs, id: sandbox.row.id as string }))
    .sort(byAge)
    .filter((each) => after === undefined || byAge(after, each) < 0);
  const page = found.slice(0, limit);
  const last = page.at(-1);
  return {
    items: page.map(({ sandbox }) => nativeInfoOf(sandbox)),
    next: found.length > limit && last !== undefined ? cursorOf(last) : null,
  };
}

function matches({ row, state }: Sandbox, query: SandboxQuery): boolean {
  return (
    query.sees(row.owner) &&
    (query.owner === undefined || query.owner === row.owner) &&
    (query.name === undefined || query.name === row.name) &&
    (query.state === undefined || query.state.includes(state.phase)) &&
    (query.label ?? []).every(({ key, value }) =>
      value === undefined ? Object.hasOwn(row.labels, key) : row.labels[key] === value,
    )
  );
}

interface Place {
  readonly createdMs: number;
  readonly id: string;
}

function byAge(one: Place, other: Place): number {
  if (one.createdMs !== other.createdMs) return other.createdMs - one.createdMs;
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0;
}

function cursorOf({ createdMs, id }: Place): string {
  return Buffer.from(`${createdMs}.${id}`).toString('base64url');
}

function placeOf(cursor: string): Place {
  const [, createdMs, id] = /^(\d{1,15})\.(.+)$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (createdMs === undefined || id === undefined) {
    throw new AppError('invalid_request', 'cursor: take `next` of the page before as it is');
  }
  return { createdMs: Number(createdMs), id };
}
