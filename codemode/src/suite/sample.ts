/**
 * Which rows of the suite run on which executor. The command line's default engine, QuickJS in a process of its own, runs them all; each
 * other executor a sample, and all of them with `squash test --long`.
 *
 * A sample is the same on every machine. It holds each row that is about one engine or names this executor, one row of each family at
 * least, so that no kind of attempt is missing anywhere, and of the others those whose number falls to it: `isolated-vm`, `deno` and `vm2` share
 * them, so that each row runs on V8, too.
 */
import { createHash } from 'node:crypto';
import type { ExecutorName } from '../executors.ts';
import type { Case } from './case.ts';

export type Groups = Readonly<Record<string, readonly Case[]>>;

/** Of so many rows, by their numbers, the one at this place. */
const shares: Readonly<Record<ExecutorName, { readonly of: number; readonly at: number }>> = {
  quickjs: { of: 1, at: 0 },
  'isolated-vm': { of: 3, at: 0 },
  deno: { of: 3, at: 1 },
  vm2: { of: 3, at: 2 },
  container: { of: 4, at: 1 },
  sandbox: { of: 4, at: 3 },
};

export function sampleFor(name: ExecutorName, groups: Groups): Groups {
  if (process.env['TEST_LONG'] === '1') return groups;
  const sampled = Object.entries(groups).map(([group, rows]) => [group, rows.filter(wantedBy(name, rows))]);
  return Object.fromEntries(sampled) as Groups;
}

function wantedBy(name: ExecutorName, rows: readonly Case[]): (row: Case) => boolean {
  const { of, at } = shares[name];
  const isWanted = (row: Case) =>
    numberOf(row) % of === at || row.everywhere === true || row.differs?.executor === name;
  return (row) => {
    if (isWanted(row)) return true;
    const family = rows.filter((other) => familyOf(other) === familyOf(row));
    return !family.some(isWanted) && family[at % family.length] === row;
  };
}

/** The number of an attempt of the red team (`A5`), what stands before the colon, or a name of its own. */
export function familyOf({ name }: Case): string {
  return /^[A-Z]\d+\b|^[^:]+(?=: )/.exec(name)?.[0] ?? name;
}

function numberOf({ name }: Case): number {
  return createHash('sha256').update(name).digest().readUInt32BE();
}
