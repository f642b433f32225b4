/**
 * Finds the policy files of a run and reads their bytes.
 *
 * The project's file is hostile input: it is opened without following a link, must be a regular file, and is read once, so
 * that what is hashed is what counts. The person's own files may be links, as programs that keep settings make them, but
 * nobody else may be able to write them.
 */
import { createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { fileBelow } from '@squash/base/open-below';
import type { PolicyFormat } from './document.ts';
import { fileLimits } from './file-schema.ts';
import type { Origin } from './layers.ts';
import { isThere, ownFileNames, type PolicyPlaces, projectFileNames } from '../policy-places.ts';
import { PolicyProblem, whyUnread } from '../policy-problem.ts';

export interface FoundFile {
  readonly origin: Origin;
  readonly path: string;
  readonly format: PolicyFormat;
  readonly text: string;
  /** Of its bytes, hexadecimal. */
  readonly sha256: string;
}

/** @throws PolicyProblem where a place has two files, or one that may not be read */
export function findPolicyFiles(places: PolicyPlaces): readonly FoundFile[] {
  return [
    ...only(places.managed, ownFileNames, (path) => readOwnFile(path, 'managed')),
    ...only(places.user, ownFileNames, (path) => readOwnFile(path, 'user')),
    ...only(places.repository, projectFileNames, (path, name) =>
      readProjectFile(path, places.repository, name),
    ),
  ];
}

function only(
  directory: string,
  names: readonly string[],
  read: (path: string, name: string) => FoundFile,
): readonly FoundFile[] {
  const there = names.filter((name) => isThere(join(directory, name)));
  const [name, other] = there;
  if (name === undefined) return [];
  if (other !== undefined) {
    throw new PolicyProblem([
      `${join(directory, name)} and ${join(directory, other)} are both there: one place has one policy file`,
    ]);
  }
  return [read(join(directory, name), name)];
}

/** @param name below the repository: no step of it may be a link */
function readProjectFile(path: string, repository: string, name: string): FoundFile {
  const bytes = fileBelow(repository, name, (fd, size) => bytesOf(fd, size, path));
  if (bytes === undefined) {
    throw new PolicyProblem([
      `${path} is refused: a project's policy is a regular file, and no link leads to it`,
    ]);
  }
  return found('project', path, bytes);
}

/** A file of the person's own, or root's: named by him or found where his are. */
export function readOwnFile(path: string, origin: Origin): FoundFile {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch (cause) {
    throw new PolicyProblem([
      `${path === '' ? 'the policy file ""' : path} can't be read: ${whyUnread(cause)}`,
    ]);
  }
  try {
    const { uid, gid, mode, size } = fstatSync(fd);
    if ((mode & constants.S_IFMT) !== constants.S_IFREG)
      throw new PolicyProblem([`${path} is refused: it is no regular file`]);
    if (origin !== 'command line' && isOpenToOthers({ uid, gid, mode }, origin)) {
      throw new PolicyProblem([
        `${path} is refused: somebody else may write it (owner ${uid}, mode ${(mode & 0o777).toString(8)}); chmod go-w it`,
      ]);
    }
    return found(origin, path, bytesOf(fd, size, path));
  } finally {
    closeSync(fd);
  }
}

/** A group of the user's own name is usual, and files that it may write are too. */
function isOpenToOthers(
  { uid, gid, mode }: { readonly uid: number; readonly gid: number; readonly mode: number },
  origin: Origin,
): boolean {
  const isManaged = origin === 'managed';
  const mayGroup = !isManaged && gid === process.getegid?.();
  const owners = isManaged ? [0] : [0, process.geteuid?.() ?? 0];
  return (mode & (mayGroup ? 0o002 : 0o022)) !== 0 || !owners.includes(uid);
}

function bytesOf(fd: number, size: number, path: string): Buffer {
  const tooLong = new PolicyProblem([
    `${path} is refused: a policy has ${fileLimits.bytesMax} bytes at most`,
  ]);
  if (size > fileLimits.bytesMax) throw tooLong;
  // It may grow while it is read: one byte more than may be tells.
  const bytes = Buffer.alloc(fileLimits.bytesMax + 1);
  let length = 0;
  for (;;) {
    const read = readSync(fd, bytes, length, bytes.length - length, null);
    length += read;
    if (length > fileLimits.bytesMax) throw tooLong;
    if (read === 0) return bytes.subarray(0, length);
  }
}

function found(origin: Origin, path: string, bytes: Buffer): FoundFile {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new PolicyProblem([`${path} is refused: it is no UTF-8 text`]);
  }
  const format = path.endsWith('.toml') ? 'toml' : 'jsonc';
  return { origin, path, format, text, sha256: createHash('sha256').update(bytes).digest('hex') };
}
