/** Ranges and conditions of HTTP (RFC 9110) on a file of a sandbox. Pure. */
import { AppError } from '@squash/contract/errors';
import type { FileRange, FileStat, FileWriting } from '../engine/files.ts';

/**
 * Of one state of one file: the inode, when it last changed, its size. The kernel's clock has ticks of some milliseconds, so two
 * writes into one file within a tick that leave it as long are not told apart; whoever replaces it makes another inode.
 */
export function etagOf({ inode, changedUs, size }: FileStat): string | null {
  if (inode === undefined || changedUs === undefined) return null;
  return `"${[inode, changedUs, size].map((number) => number.toString(36)).join('-')}"`;
}

export function readHeaders(stat: FileStat): Readonly<Record<string, string>> {
  const etag = etagOf(stat);
  return {
    'accept-ranges': 'bytes',
    'last-modified': new Date(Math.min(stat.mtimeMs, 253_402_300_799_000)).toUTCString(),
    'x-content-type-options': 'nosniff',
    ...(etag === null ? {} : { etag }),
  };
}

/**
 * Undefined where all of the file is to be sent: also for what is no range, or several, as RFC 9110 allows.
 * @throws range_not_satisfiable
 */
export function wantedRange(
  stat: FileStat,
  headers: { readonly range: string | undefined; readonly ifRange: string | undefined },
): FileRange | undefined {
  const { size } = stat;
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(headers.range?.trim() ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  if (headers.ifRange !== undefined && headers.ifRange !== etagOf(stat)) return undefined;
  const offset = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1);
  if (first !== '' && last !== '' && Number(last) < offset) return undefined;
  if (offset < end) return { offset, length: end - offset };
  throw new AppError('range_not_satisfiable', `The file has ${size} bytes`, { subject: `${size}` });
}

/** @throws invalid_request for a condition that can't be kept: it must not be passed over */
export function conditionOf(headers: {
  readonly ifMatch: string | undefined;
  readonly ifNoneMatch: string | undefined;
}): Pick<FileWriting, 'exclusive' | 'over'> {
  const { ifMatch, ifNoneMatch } = headers;
  if (ifNoneMatch !== undefined && ifNoneMatch !== '*') {
    throw new AppError('invalid_request', 'If-None-Match: only * can be asked of a write');
  }
  if (ifMatch === undefined) return ifNoneMatch === undefined ? {} : { exclusive: true };
  const [, inode, changed] = /^"([0-9a-z]{1,11})-([0-9a-z]{1,11})-[0-9a-z]{1,11}"$/.exec(ifMatch) ?? [];
  if (inode === undefined || changed === undefined || ifNoneMatch !== undefined) {
    throw new AppError(
      'invalid_request',
      'If-Match: one ETag, as the file’s answer has it, and no If-None-Match',
    );
  }
  const over = { inode: Number.parseInt(inode, 36), changedUs: Number.parseInt(changed, 36) };
  if (Object.values(over).every(Number.isSafeInteger)) return { over };
  throw new AppError('invalid_request', 'If-Match: the ETag is none of ours');
}
