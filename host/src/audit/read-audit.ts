/**
 * Reads the audit backwards: newest first, a page at a time, through at most so many bytes for each.
 *
 * A cursor names a file by its number and a place in it. The current file's number is the one that it gets when it is full, so a
 * cursor stays true while files are written and turned over; where its file is gone the list is at its end.
 */
import { closeSync, fstatSync, openSync, read as readFile, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type AuditEntry, auditEntrySchema, type AuditFilters, type AuditList } from '@squash/contract/audit';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { currentName, fileName, olderNumbers } from './file-names.ts';

const read = promisify(readFile);

export interface PageAsked {
  readonly filters: AuditFilters;
  readonly limit: number;
  readonly cursor: string | undefined;
}

/** @throws invalid_request */
export async function readAudit(
  directory: string,
  { filters, limit, cursor }: PageAsked,
): Promise<AuditList> {
  const from = cursor === undefined ? undefined : parsePlace(cursor);
  const sinceMs = filters.since === undefined ? Number.NEGATIVE_INFINITY : Date.parse(filters.since);
  const items: AuditEntry[] = [];
  let bytesLeft: number = limits.auditScanBytesMax;
  using files = openFiles(directory);
  for (const { number, descriptor } of files.newestFirst) {
    if (from !== undefined && number > from.number) continue;
    const end = from?.number === number ? from.end : undefined;
    for await (const { line, start } of linesBackwards(descriptor, end)) {
      bytesLeft -= line.length;
      const entry = parseLine(line);
      if (entry !== undefined) {
        if (Date.parse(entry.at) < sinceMs) return { items, next: null };
        if (isWanted(entry, filters)) items.push(entry);
      }
      if (items.length >= limit || bytesLeft <= 0) return { items, next: `${number}-${start}` };
    }
  }
  return { items, next: null };
}

/** What stands before this byte of this file is still to be read. */
function parsePlace(cursor: string): { readonly number: number; readonly end: number } {
  const [, number, end] = /^(\d{1,12})-(\d{1,15})$/.exec(cursor) ?? [];
  if (number === undefined || end === undefined)
    throw new AppError('invalid_request', 'cursor must be what "next" of a page says');
  return { number: Number(number), end: Number(end) };
}

interface OpenFiles extends Disposable {
  readonly newestFirst: readonly { readonly number: number; readonly descriptor: number }[];
}

/** In one turn, so that none is turned over between its name and its descriptor. */
function openFiles(directory: string): OpenFiles {
  const numbers = olderNumbers(namesIn(directory));
  const current = { number: (numbers.at(-1) ?? 0) + 1, name: currentName };
  const all = [...numbers.map((number) => ({ number, name: fileName(number) })), current].reverse();
  const newestFirst = all.flatMap(({ number, name }) => {
    try {
      return [{ number, descriptor: openSync(join(directory, name), 'r') }];
    } catch {
      // Removed by hand, or there has not been a line yet.
      return [];
    }
  });
  return {
    newestFirst,
    [Symbol.dispose]: () => {
      for (const { descriptor } of newestFirst) closeSync(descriptor);
    },
  };
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    // It is made with the first line.
    return [];
  }
}

interface PlacedLine {
  readonly line: string;
  /** Where it begins in its file. */
  readonly start: number;
}

/** Whole lines, the last one first. Lines are ASCII: a character is a byte. */
async function* linesBackwards(descriptor: number, before: number | undefined): AsyncGenerator<PlacedLine> {
  const { size } = fstatSync(descriptor);
  let at = Math.min(before ?? size, size);
  /** From `at` on: the end of a line that begins further in front. */
  let carried = '';
  const chunk = Buffer.alloc(limits.auditChunkBytes);
  while (at > 0) {
    const start = Math.max(0, at - chunk.length);
    const { bytesRead } = await read(descriptor, chunk, 0, at - start, start);
    const text = chunk.toString('latin1', 0, bytesRead) + carried;
    const cut = start === 0 ? 0 : text.indexOf('\n') + 1;
    for (let to = text.length; to > cut; ) {
      const from = to < 2 ? 0 : Math.max(cut, text.lastIndexOf('\n', to - 2) + 1);
      yield { line: text.slice(from, to), start: start + from };
      to = from;
    }
    // Where a line is longer than any of ours, it is not kept: what is left of it is no JSON.
    carried = cut > limits.auditLineBytesMax ? '' : text.slice(0, cut);
    at = start;
  }
}

function parseLine(line: string): AuditEntry | undefined {
  try {
    const entry: unknown = JSON.parse(line);
    // The whole schema is for those that are answered: a page looks at a hundred thousand.
    return typeof entry === 'object' && entry !== null && 'at' in entry ? (entry as AuditEntry) : undefined;
  } catch {
    // The piece of a line that a full disk or a crash has left, or an empty one before the next.
    return undefined;
  }
}

function isWanted(entry: AuditEntry, { owner, sandbox, operation, decision }: AuditFilters): boolean {
  const { caller } = entry;
  return (
    (owner === undefined || (caller?.kind === 'key' && caller.owner === owner)) &&
    (sandbox === undefined || entry.sandbox === sandbox) &&
    (operation === undefined || entry.operation === operation) &&
    (decision === undefined || entry.decision === decision) &&
    auditEntrySchema.safeParse(entry).success
  );
}
