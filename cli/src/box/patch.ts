/**
 * A change as lines: what the host has, and what the box has instead.
 *
 * The box's file comes from the daemon, as an apply would bring it. What is shown are the box's own bytes, made harmless for a terminal.
 * `diff` gets two descriptors and no path of either.
 */
import { spawnSync } from 'node:child_process';
import { closeSync, constants, fstatSync, lstatSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { systemPath } from '@squash/contract/system-path';
import { changeLimits } from '@squash/contract/change-limits';
import type { Change } from '@squash/contract/changes';
import { apiPath, type Client, isUnknownOperation } from '../client/client.ts';
import { CliFailure } from '../failure.ts';
import { visible, visibleLines } from '../output/print.ts';

const linesMax = 2_000;
/** A line of a file that is one line would be all that somebody sees. */
const lineCharactersMax = 2_000;

export interface PatchPlaces {
  readonly client: Client;
  readonly id: string;
  readonly place: string;
}

/** Lines without their ends; undefined where there is no text to compare. */
export async function patchOf(places: PatchPlaces, change: Change): Promise<readonly string[] | undefined> {
  if (change.type !== 'file') return undefined;
  const own = change.change === 'removed' ? 'none' : await ownBytes(places, change);
  if (own === undefined) return undefined;
  const host = change.change === 'added' ? 'none' : openBelow('/', `${places.place}${change.path}`);
  if (host === undefined) return undefined;
  try {
    return compare(host, own, change.path.slice(1));
  } finally {
    if (host !== 'none') closeSync(host);
  }
}

/** Undefined: too long, gone or something else meanwhile, or the daemon is of a release that has no such operation. */
async function ownBytes({ client, id, place }: PatchPlaces, change: Change): Promise<Buffer | undefined> {
  if (change.size_bytes > changeLimits.fileBytesMax) return undefined;
  const path = apiPath(['v1', 'sandboxes', id, 'changes', 'file'], { place, path: change.path });
  try {
    return await client.bytes(path, changeLimits.fileBytesMax);
  } catch (failure) {
    const codes = ['file_not_found', 'not_a_file', 'invalid_request'];
    if (isUnknownOperation(failure)) return undefined;
    if (failure instanceof CliFailure && codes.includes(failure.code)) return undefined;
    throw failure;
  }
}

function compare(host: number | 'none', own: Buffer | 'none', name: string): readonly string[] | undefined {
  const labels = ['--label', `a/${visible(name)}`, '--label', `b/${visible(name)}`];
  const sides = [host === 'none' ? '/dev/null' : '/dev/fd/3', own === 'none' ? '/dev/null' : '-'];
  const { stdout, status } = spawnSync('diff', ['-u', ...labels, ...sides], {
    stdio: ['pipe', 'pipe', 'ignore', host === 'none' ? 'ignore' : host],
    input: own === 'none' ? '' : own,
    encoding: 'utf8',
    maxBuffer: 8 * changeLimits.fileBytesMax,
    env: { PATH: systemPath, LC_ALL: 'C.UTF-8' },
  });
  if (status === null || status > 1 || stdout.startsWith('Binary files')) return undefined;
  const lines = stdout.split('\n').slice(0, -1).map(shown);
  return lines.length <= linesMax
    ? lines
    : [...lines.slice(0, linesMax), `… ${lines.length - linesMax} lines more`];
}

function shown(line: string): string {
  return visibleLines(line.length <= lineCharactersMax ? line : `${line.slice(0, lineCharactersMax)}…`);
}

function openBelow(root: string, path: string): number | undefined {
  try {
    let at = root;
    for (const part of path
      .split('/')
      .filter((each) => each !== '')
      .slice(0, -1)) {
      at = join(at, part);
      if (!lstatSync(at).isDirectory()) return undefined;
    }
    const file = openSync(join(root, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const status = fstatSync(file);
    if (status.isFile() && status.size <= changeLimits.fileBytesMax) return file;
    closeSync(file);
    return undefined;
  } catch {
    // Gone meanwhile, or of another user.
    return undefined;
  }
}
