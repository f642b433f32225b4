/** What `squash sync` leaves alone on both sides, in the language of `.gitignore`. */
import { lstatSync, readFileSync } from 'node:fs';
import { CliFailure, fileProblem } from '../failure.ts';
import { readTextFile } from '../text-file.ts';
import { parentsOf } from './tree.ts';

/** Read from the directory here when it is there. Sent, never fetched: a sandbox has no say in it. */
export const exclusionFile = '.squashignore';

/** More is no list that anybody wrote. */
const fileBytesMax = 1_048_576;

interface Rule {
  readonly pattern: RegExp;
  readonly isInclusion: boolean;
  readonly isForDirectories: boolean;
}

/** Whether a path is excluded, by itself or with a directory above it. */
export type Excludes = (path: string, isDirectory: boolean) => boolean;

export function excludesOf(lines: readonly string[]): Excludes {
  const rules = lines.flatMap(ruleOf);
  const known = new Map<string, boolean>();
  const matches = (path: string, isDirectory: boolean): boolean => {
    const last = rules.findLast(
      ({ pattern, isForDirectories }) => (isDirectory || !isForDirectories) && pattern.test(path),
    );
    return last !== undefined && !last.isInclusion;
  };
  return (path, isDirectory) => {
    if (rules.length === 0) return false;
    for (const above of parentsOf(path)) {
      if (above === '') continue;
      const isOut = known.get(above) ?? matches(above, true);
      known.set(above, isOut);
      if (isOut) return true;
    }
    return matches(path, isDirectory);
  };
}

/** Of the directory's own file, which whoever made the directory may have made. */
export function ownExclusionLines(directory: string): readonly string[] {
  const file = `${directory}/${exclusionFile}`;
  const isThere = lstatSync(file, { throwIfNoEntry: false }) !== undefined;
  return isThere ? readTextFile(file, 'file_unreadable').split('\n') : [];
}

/** Of a file that is named; it may be a pipe. */
export function readExclusionLines(file: string): readonly string[] {
  try {
    const text = readFileSync(file);
    if (text.length > fileBytesMax) throw new CliFailure('file_unreadable', `"${file}" is too long`);
    return text.toString('utf8').split('\n');
  } catch (cause) {
    if (cause instanceof CliFailure) throw cause;
    throw new CliFailure('file_unreadable', `can't read "${file}": ${fileProblem(cause)}`);
  }
}

function ruleOf(line: string): readonly Rule[] {
  const text = line.replace(/\r$/, '').replace(/(?<!\\)[ \t]+$/, '');
  if (text === '' || text.startsWith('#')) return [];
  const isInclusion = text.startsWith('!');
  const body = isInclusion ? text.slice(1) : text.replace(/^\\(?=[#!])/, '');
  const isForDirectories = body.endsWith('/');
  const words = body.replace(/\/+$/, '');
  if (words === '' || words === '/') return [];
  // A slash before the end binds it to the top.
  const isAnchored = words.includes('/');
  const source = sourceOf(bytesAsText(words.replace(/^\//, '')));
  const pattern = new RegExp(`^${isAnchored ? '' : '(?:[^]*/)?'}${source}$`);
  return [{ pattern, isInclusion, isForDirectories }];
}

/** Paths have one character a byte, so patterns have, too. */
const bytesAsText = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

function sourceOf(glob: string): string {
  let source = '';
  for (let at = 0; at < glob.length; at += 1) {
    const rest = glob.slice(at);
    const isStart = at === 0 || glob[at - 1] === '/';
    if (isStart && rest.startsWith('**/')) {
      source += '(?:[^]*/)?';
      at += 2;
    } else if (isStart && rest === '**') {
      source += '[^]*';
      at += 1;
    } else if (rest.startsWith('*')) {
      source += '[^/]*';
      while (glob[at + 1] === '*') at += 1;
    } else if (rest.startsWith('?')) {
      source += '[^/]';
    } else {
      const [set] = /^\[[!^]?\]?[^\]]*\]/.exec(rest) ?? [];
      if (set !== undefined) {
        const inner = set
          .slice(1, -1)
          .replace(/^!/, '^')
          .replaceAll(/[\\\][]/g, String.raw`\$&`);
        source += `(?!/)[${inner}]`;
        at += set.length - 1;
        continue;
      }
      if (rest.startsWith('\\')) at += 1;
      source += (glob[at] ?? '').replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`);
    }
  }
  return source;
}
