/**
 * What a box was refused, of what its programs asked for: PID 1 tells which paths could not be had, and here they are held against the rules
 * and against what lies on this machine. Nothing is opened.
 *
 * The programs chose the paths, and may have written there what they like: a place is named only where it exists here, and where the
 * user himself could do what was asked.
 */
import { accessSync, constants, lstatSync, type Stats } from 'node:fs';
import { dirname } from 'node:path';
import type { PathLevel } from '@squash/contract/path-levels';
import type { RefusedPathInfo } from '@squash/contract/paths';
import { isOpened, isWithin } from '@squash/policy/paths/levels';
import { canonical, canonicalOfMissing } from './host-paths.ts';
import { levelAt } from './levels.ts';

export type Rules = ReadonlyMap<string, PathLevel>;

export interface Refusal {
  /** As the program had it. */
  readonly asked: string;
  readonly intent: RefusedPathInfo['intent'];
  /** Where that lies, with no link on the way; of what would be made, the directory. */
  readonly place: string;
  readonly kind: 'file' | 'directory' | 'other';
  /** What the rules say of it. */
  readonly level: 'hidden' | 'deny' | 'mask' | 'ro';
  /** The least level that would do. */
  readonly needs: 'ro' | 'cow';
}

/** Of the box itself, whatever lies there here. */
const ofTheBox = ['/proc', '/sys', '/dev'];

/** Undefined: the rules did not refuse it, or it is not here. */
export function refusalOf(
  { path, path_base64: bytes, intent }: Pick<RefusedPathInfo, 'path' | 'path_base64' | 'intent'>,
  rules: Rules,
): Refusal | undefined {
  // No rule can name what is no text.
  if (bytes !== undefined || ofTheBox.some((place) => isWithin(path, place))) return undefined;
  const needs = intent === 'write' ? 'cow' : 'ro';
  const place = placeOf(path, rules);
  const level = levelAt(rules, place);
  if (level === 'rw' || level === 'cow' || (level === 'ro' && needs === 'ro')) return undefined;
  const found = whatIs(place);
  const refusal = (at: string, kind: Refusal['kind']): Refusal => ({
    asked: path,
    intent,
    place: at,
    kind,
    level,
    needs,
  });
  if (found !== undefined) return isOurs(place, intent) ? refusal(place, kindOf(found)) : undefined;
  const parent = dirname(place);
  const isMakable = intent === 'write' && whatIs(parent)?.isDirectory() === true && isOurs(parent, intent);
  return isMakable ? refusal(parent, 'directory') : undefined;
}

/** A link that is hidden itself leads nowhere, wherever it leads here. */
function placeOf(path: string, rules: Rules): string {
  const real = canonical(path) ?? canonicalOfMissing(path);
  return isOpened(levelAt(rules, real)) && !isOpened(levelAt(rules, path)) ? path : real;
}

function whatIs(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    // Behind a directory that is closed to this user, or no path at all: it is not here for him.
    return undefined;
  }
}

function kindOf(found: Stats): Refusal['kind'] {
  if (found.isDirectory()) return 'directory';
  return found.isFile() || found.isSymbolicLink() ? 'file' : 'other';
}

/** Whether this user could do here what was asked: else no rule would help. */
function isOurs(path: string, intent: Refusal['intent']): boolean {
  const { F_OK, R_OK, W_OK, X_OK } = constants;
  try {
    accessSync(path, { look: F_OK, read: R_OK, write: W_OK, execute: X_OK }[intent]);
    return true;
  } catch {
    return false;
  }
}
