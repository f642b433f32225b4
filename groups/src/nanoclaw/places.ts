/**
 * Files that an agent's programs drop and look for. Whoever drops them may be misled: nothing here waits for a file, follows one to
 * another place, or reads more of it than an action has.
 */
import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type Fields, fieldsOf } from './channel-client.ts';
import { warn } from './warnings.ts';

export type Dropped =
  | { readonly kind: 'whole'; readonly fields: Fields }
  /** Whoever writes it may not have ended. */
  | { readonly kind: 'partial' }
  | { readonly kind: 'gone' }
  | { readonly kind: 'bad'; readonly why: string };

/** What the channel takes in one request. */
const fileBytesMax = 131_072;

export function readDropped(path: string): Dropped {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' ? { kind: 'gone' } : { kind: 'bad', why: `it can't be opened: ${code ?? ''}` };
  }
  try {
    const stat = fstatSync(file);
    if (!stat.isFile()) return { kind: 'bad', why: 'it is no file' };
    if (stat.size > fileBytesMax) return { kind: 'bad', why: `it has more than ${fileBytesMax} bytes` };
    const text = readFileSync(file, 'utf8');
    const fields = fieldsOf(text);
    return fields === undefined ? { kind: 'partial' } : { kind: 'whole', fields };
  } catch {
    return { kind: 'bad', why: "it can't be read" };
  } finally {
    closeSync(file);
  }
}

/** Names that end with `.json`, in their order; none where there is no such directory. */
export function dropped(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
      .filter((name) => name.endsWith('.json'))
      .toSorted();
  } catch {
    // The agent has removed it, or put something else there: it drops nothing then.
    return [];
  }
}

/** As the runner's own programs write: whole or not at all. What can't be written is left out: the place is the agent's. */
export function put(path: string, value: unknown): void {
  const temporary = `${path}.${Math.random().toString(36).slice(2)}.tmp`;
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(temporary, `${JSON.stringify(value, null, 2)}\n`, { flag: 'wx' });
    renameSync(temporary, path);
  } catch (error) {
    warn(`cannot write ${path}: ${(error as Error).message}`);
    remove(temporary);
  }
}

/** @returns whether it is gone */
export function remove(path: string): boolean {
  try {
    rmSync(path, { recursive: true, force: true });
    return true;
  } catch {
    // The directory's mode was changed: it stays.
    return false;
  }
}

/** Out of the way, for whoever looks why; where that can't be it is removed. @returns whether it is away */
export function setAside(path: string, directory: string, name: string): boolean {
  try {
    mkdirSync(directory, { recursive: true });
    if (readdirSync(directory).length < setAsideMax) {
      renameSync(path, join(directory, name));
      return true;
    }
  } catch {
    // As if there were no room.
  }
  return remove(path);
}

const setAsideMax = 100;
