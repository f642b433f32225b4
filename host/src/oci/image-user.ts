/**
 * Whom an image's `User` means: a name or a number, and perhaps a group, looked up in the image's own `/etc/passwd` and `/etc/group` as
 * container engines do.
 */
import { lstatSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { limits } from '@squash/contract/limits';
import { fileBelow } from '@squash/base/open-below';
import { idMax } from './layer-tree.ts';

const homeCharsMax = 4_095;

export interface ImageUser {
  readonly uid: number | null;
  readonly gid: number | null;
  readonly home: string | null;
}

/** @param trees the layers, topmost first */
export function imageUserOf(user: string, trees: readonly string[]): ImageUser {
  const [name = '', group] = user.split(':', 2);
  const rows = linesOf(trees, 'etc/passwd').map((line) => line.split(':'));
  const wanted = name === '' ? '0' : name;
  const isNumber = /^\d{1,5}$/.test(wanted);
  const row = rows.find((each) => (isNumber ? each[2] === String(Number(wanted)) : each[0] === wanted));
  const uid = isNumber ? idOf(wanted) : idOf(row?.[2]);
  if (uid === null) return { uid: null, gid: null, home: null };
  const own = idOf(row?.[3]) ?? 0;
  const gid = group === undefined || group === '' ? own : groupOf(group, trees);
  if (gid === null) return { uid: null, gid: null, home: null };
  const home = row?.[5] ?? '';
  const isPath = home.startsWith('/') && home.length <= homeCharsMax && !home.includes('\0');
  return { uid, gid, home: isPath ? home : uid === 0 ? '/root' : '/' };
}

function groupOf(group: string, trees: readonly string[]): number | null {
  if (/^\d{1,5}$/.test(group)) return idOf(group);
  const row = linesOf(trees, 'etc/group')
    .map((line) => line.split(':'))
    .find((each) => each[0] === group);
  return idOf(row?.[2]);
}

function idOf(text: string | undefined): number | null {
  if (text === undefined || !/^\d{1,5}$/.test(text)) return null;
  return Number(text) <= idMax ? Number(text) : null;
}

/** Of the topmost layer that has it, if none above it has deleted it or put something else in its place. */
function linesOf(trees: readonly string[], path: string): readonly string[] {
  for (const tree of trees) {
    const seen = kindIn(tree, path);
    if (seen === 'nothing') continue;
    const text = fileBelow(tree, path, (fd, bytes) => {
      const buffer = Buffer.alloc(Math.min(bytes, limits.passwdBytesMax));
      return buffer.toString('utf8', 0, readSync(fd, buffer, 0, buffer.length, 0));
    });
    return text?.split('\n') ?? [];
  }
  return [];
}

/** Whether a layer says anything of a path: a whiteout or a link in it hides what lies below as a file does. */
function kindIn(tree: string, path: string): 'nothing' | 'something' {
  const names = path.split('/');
  for (const at of names.keys()) {
    // What leads here is a directory, as the steps before have found, so no link is followed.
    const found = lstatSync(join(tree, ...names.slice(0, at + 1)), { throwIfNoEntry: false });
    if (found === undefined) return 'nothing';
    if (!found.isDirectory()) return 'something';
  }
  return 'something';
}
