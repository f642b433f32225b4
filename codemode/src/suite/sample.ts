/**
 * Which rows of the suite run on which executor. The command line's default engine, QuickJS in a process of its own, runs them all; each
 * other executor a sample, and all of them with `squash test --long`.
 *
 * A sample is the same on every machine. It holds each row that is about one engine or names this executor, one row of each family at
 * least, so that no kind of attempt is missing anywhere, and of the others those whose number falls to it: `isolated-vm` and `deno` share
 * them, so that each row runs on V8, too, and most of them where a run takes no process of its own.
 */
import { createHash } from 'node:crypto';
import type { ExecutorName } from '../executors.ts';
import type { Case } from './case.ts';

export type Groups = Readonly<Record<string, readonly Case[]>>;

/** Of so many rows, by their numbers, those from this place on and before the other. */
const shares: Readonly<
  Record<ExecutorName, { readonly of: number; readonly from: number; readonly to: number }>
> = {
  quickjs: { of: 1, from: 0, to: 1 },
  'isolated-vm': { of: 6, from: 0, to: 4 },
  deno: { of: 6, from: 4, to: 6 },
  vm2: { of: 6, from: 5, to: 6 },
  container: { of: 4, from: 1, to: 2 },
  sandbox: { of: 4, from: 3, to: 4 },
};

export function sampleFor(name: ExecutorName, groups: Groups): Groups {
  if (process.env['TEST_LONG'] === '1') return groups;
  const sampled = Object.entries(groups).map(([group, rows]) => [group, rows.filter(wantedBy(name, rows))]);
  return Object.fromEntries(sampled) as Groups;
}

function wantedBy(name: ExecutorName, rows: readonly Case[]): (row: Case) => boolean {
  const { of, from, to } = shares[name];
  const isShare = (place: number) => place >= from && place < to;
  const isWanted = (row: Case) =>
    isShare(numberOf(row) % of) || row.everywhere === true || row.differs?.executor === name;
  return (row) => {
    if (isWanted(row)) return true;
    const family = rows.filter((other) => familyOf(other) === familyOf(row));
    return !family.some(isWanted) && family[from % family.length] === row;
  };
}

/** The number of an attempt of the red team (`A5`), what stands before the colon, or a name of its own. */
export function familyOf({ name }: Case): string {
  return /^[A-Z]\d+\b|^[^:]+(?=: )/.exec(name)?.[0] ?? name;
}

function numberOf({ name }: Case): number {
  return createHash('sha256').update(name).digest().readUInt32BE();
}
