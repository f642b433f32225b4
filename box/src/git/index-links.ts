/**
 * Which paths of a checked-out tree are submodules, by git's index: the file that says so whatever stands in the tree. Git is not asked, as
 * in `repository.ts`; the form is that of gitformat-index(5), versions 2 to 4. What is no index has none;
 * one that can't be read is refused.
 */
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { BoxRefusal } from '../refusal.ts';

/** Of a million files it has some hundred. */
const bytesMax = 256 * 1_048_576;
const linkMode = 0o160000;
const [modeAt, idAt, sha1Bytes, sha256Bytes] = [24, 40, 20, 32];
const isExtended = 0x4000;

/** @param git of this worktree @param common of all of them @throws BoxRefusal `box_refused` */
export function submodulesOf(git: string, common: string): readonly string[] {
  const idBytes = /objectformat\s*=\s*sha256/i.test(textOf(join(common, 'config'))) ? sha256Bytes : sha1Bytes;
  // A split index has the rest of its entries in one that it shares.
  const files = ['index', ...namesIn(git).filter((name) => name.startsWith('sharedindex.'))];
  return [...new Set(files.flatMap((name) => linksIn(bytesOf(join(git, name)), idBytes)))];
}

function linksIn(index: Buffer, idBytes: number): readonly string[] {
  if (index.length < 12 || index.toString('latin1', 0, 4) !== 'DIRC') return [];
  const version = index.readUInt32BE(4);
  if (version < 2 || version > 4) throw unreadable(`an index of version ${version}`);
  const links: string[] = [];
  let path = Buffer.alloc(0);
  let at = 12;
  for (let left = index.readUInt32BE(8); left > 0; left -= 1) {
    const flagsAt = at + idAt + idBytes;
    if (flagsAt + 2 > index.length) return links;
    const mode = index.readUInt32BE(at + modeAt);
    let nameAt = flagsAt + ((index.readUInt16BE(flagsAt) & isExtended) === 0 ? 2 : 4);
    let kept = 0;
    if (version === 4) [kept, nameAt] = keptOf(index, nameAt, path.length);
    const end = index.indexOf(0, nameAt);
    if (end === -1) return links;
    if (version === 4 || mode === linkMode)
      path = Buffer.concat([path.subarray(0, kept), index.subarray(nameAt, end)]);
    if (mode === linkMode) links.push(path.toString('utf8'));
    at = version === 4 ? end + 1 : at + (Math.floor((end - at) / 8) + 1) * 8;
  }
  return links;
}

/** How much of the last path is this one's too, and where the rest stands. */
function keptOf(index: Buffer, at: number, before: number): [kept: number, nameAt: number] {
  let byte = index[at] ?? 0;
  let removed = byte & 0x7f;
  let next = at + 1;
  for (; (byte & 0x80) !== 0 && next < index.length; next += 1) {
    byte = index[next] ?? 0;
    removed = (removed + 1) * 128 + (byte & 0x7f);
  }
  return [Math.max(0, before - removed), next];
}

function bytesOf(file: string): Buffer {
  const stats = lstatSync(file, { throwIfNoEntry: false });
  if (stats?.isFile() !== true) return Buffer.alloc(0);
  if (stats.size > bytesMax) throw unreadable(`"${file}"`);
  try {
    return readFileSync(file);
  } catch {
    // Closed to this user: git could not read it either.
    return Buffer.alloc(0);
  }
}

function unreadable(what: string): BoxRefusal {
  return new BoxRefusal(
    'box_refused',
    `git has ${what}, in which no submodules can be found: give --repo cow`,
  );
}

function textOf(file: string): string {
  return bytesOf(file).toString('latin1');
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    // No git directory: it has no index.
    return [];
  }
}
