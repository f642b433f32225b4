/**
 * Uppers that a power cut may have taken. Rows are synced within a second, an upper with its first synced byte, and without
 * one when the kernel writes it back, half a minute later. So after a cut there may be a row without its upper, where that was
 * made shortly before the last use on record. An older one was on the disk: where it is missing somebody has taken it, and
 * an empty sandbox in its place would hide that.
 */
import type { SandboxId } from '@squash/contract/ids';
import type { Warning } from '@squash/contract/sandbox';
import type { SandboxRow } from '#store/rows.ts';

const freshMs = 60_000;

export const upperMade: Warning = {
  code: 'upper_made',
  message:
    'a power cut took what had been written before any of it was on the disk: the sandbox began empty again',
};

/** Whose upper a power cut may have taken. A clock that was ahead must not make new ones look old. */
export function freshUppers(
  rows: readonly Pick<SandboxRow, 'id' | 'lastActiveMs' | 'upperMadeMs'>[],
  nowMs: number,
): ReadonlySet<SandboxId> {
  const lastUseMs = Math.min(nowMs, Math.max(...rows.map((row) => row.lastActiveMs)));
  return new Set(rows.filter((row) => row.upperMadeMs >= lastUseMs - freshMs).map((row) => row.id));
}
