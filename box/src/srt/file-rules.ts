/**
 * The Sandbox Runtime's four lists of paths as one level for each path. Pure.
 *
 * There, for reading what is listed longer wins and at equal length what allows; for writing what denies wins at any length. Here the
 * longest rule wins. So each path that stands in a list gets the level that it has there; between them nothing changes.
 */
import { isWithin } from '@squash/policy/paths/levels';
import { isClosed } from '../closed.ts';
import { absolutePath } from '../host-paths.ts';
import { systemPaths } from '@squash/contract/path-levels';
import type { FieldNote } from './field.ts';
import type { PathEntry } from './fields.ts';
import type { SrtSettings } from './settings.ts';

export type FileLevel = 'hidden' | 'ro' | 'rw';

/** Absolute, without links. */
export interface PathGrounds {
  /** What `~` means. */
  readonly home: string;
  /** Where relative paths begin. */
  readonly cwd: string;
  /** Whose keys are closed whatever is asked: the home of the password database. */
  readonly ownHome: string;
}

export interface FileRule {
  /** As a policy file writes it. */
  readonly written: string;
  /** Absolute; may be a pattern. */
  readonly path: string;
  readonly level: FileLevel;
}

export interface FileRules {
  /** Each path once. */
  readonly rules: readonly FileRule[];
  readonly notes: readonly FieldNote[];
  readonly refused: readonly FieldNote[];
}

const lists = ['denyRead', 'allowRead', 'allowWrite', 'denyWrite'] as const;
type List = (typeof lists)[number];

interface Entry {
  readonly list: List;
  readonly written: string;
  readonly path: string;
}

export interface FileScope {
  /** Names that stay read-only whatever may be written, absolute. */
  readonly kept: readonly string[];
  /** What no list names may be read, as SRT has it; else no rule is made of it. */
  readonly isAllRead: boolean;
}

export function fileRules(
  settings: SrtSettings['filesystem'],
  grounds: PathGrounds,
  { kept, isAllRead }: FileScope,
): FileRules {
  const notes: FieldNote[] = [];
  const refused: FieldNote[] = [];
  const entries = lists.flatMap((list) =>
    (settings[list] ?? []).flatMap((each): readonly Entry[] => {
      const entry = entryOf(list, each, grounds);
      const field = `filesystem.${list}`;
      if (typeof entry === 'string') {
        refused.push({ field, text: `${JSON.stringify(wordOf(each))}: ${entry}` });
        return [];
      }
      const idle = whyIdle(entry, grounds);
      if (idle === undefined) return [entry];
      (idle.isRefused ? refused : notes).push({
        field,
        text: `${JSON.stringify(entry.written)}: ${idle.why}`,
      });
      return [];
    }),
  );
  const all = [...entries, ...kept.map((path): Entry => ({ list: 'denyWrite', written: path, path }))];
  const rules = new Map<string, FileRule>();
  for (const { written, path } of [...(isAllRead ? rootsOf(grounds) : []), ...all]) {
    if (!rules.has(path)) rules.set(path, { written, path, level: levelOf(path, all) });
  }
  return { rules: [...rules.values()], notes, refused };
}

/** All of it is read, the home and where one works included: a box's own defaults are stricter about these. */
function rootsOf({ home, cwd, ownHome }: PathGrounds): readonly Pick<Entry, 'written' | 'path'>[] {
  return [
    { written: '/', path: '/' },
    { written: '~', path: home },
    ...(ownHome === home ? [] : [{ written: ownHome, path: ownHome }]),
    { written: '.', path: cwd },
  ];
}

function levelOf(path: string, entries: readonly Entry[]): FileLevel {
  // A pattern is a path of its own here: it says nothing of its literal beginning.
  const over = entries.filter((each) => isWithin(path, each.path));
  const length = (...names: readonly List[]): number =>
    Math.max(-1, ...over.filter(({ list }) => names.includes(list)).map((each) => each.path.length));
  const denied = length('denyRead');
  const isRead = denied < 0 || length('allowRead') >= denied || length('allowWrite') > denied;
  if (!isRead) return 'hidden';
  return length('allowWrite') >= 0 && length('denyWrite') < 0 ? 'rw' : 'ro';
}

function wordOf(entry: PathEntry): string {
  return (typeof entry === 'string' ? entry : entry.path).slice(0, 256);
}

/** A sentence: it can't be had. */
function entryOf(list: List, entry: PathEntry, { home, cwd }: PathGrounds): Entry | string {
  const isLiteral = typeof entry !== 'string' && entry.literal === true;
  const word = typeof entry === 'string' ? entry : entry.path;
  if (/\p{Cc}/u.test(word)) return 'a path has no control characters here';
  if (Buffer.byteLength(word) > 500) return 'a path has 500 bytes at most here';
  // A directory with everything in it is what a rule for the directory means.
  const written = isLiteral ? word : word.replace(/(?<=.)\/\*\*\/?$/, '');
  const hasStar = /[*?]/.test(written);
  if (isLiteral && hasStar) return 'a name with "*" or "?" in it can’t be written here';
  if (!isLiteral && /[[\]{}]/.test(written))
    return 'a pattern has "*", "**" and "?" here; call a name with other signs literal';
  if (hasStar && list === 'allowWrite')
    return 'what may be written is named without patterns (SRT passes such a pattern over)';
  const path = absolutePath(written, { home, cwd });
  return { list, written: plain(written, path), path };
}

function plain(written: string, path: string): string {
  if (/(?:^|\/)\.\.(?:\/|$)|\/\.(?:\/|$)|\/\//.test(written)) return path;
  const word = written.length > 1 ? written.replace(/\/+$/, '') : written;
  if (/^(?:\/|~(?:\/|$)|\.(?:\/|$))/.test(word)) return word;
  return `./${word}`;
}

function whyIdle(
  { list, path }: Entry,
  { ownHome }: PathGrounds,
): { readonly isRefused: boolean; readonly why: string } | undefined {
  const opens = list === 'allowRead' || list === 'allowWrite';
  if (systemPaths.some((place) => isWithin(path, place)))
    return { isRefused: false, why: 'a box has its own there' };
  // Relative to a home that is no one's the names mean nothing.
  if (!isClosed(path, ownHome)) return undefined;
  return opens
    ? { isRefused: true, why: 'it is closed whatever is asked' }
    : { isRefused: false, why: 'it is closed anyway' };
}
