/** The rows of `command-table.ts` that concern a sandbox's files. */
import type * as FilesModule from './commands/files.ts';
import type { Call, CommandSpec, FlagSpec, PositionalSpec } from './command.ts';

const sandbox: PositionalSpec = { name: 'id', kind: 'sandbox' };
const path: PositionalSpec = { name: 'path', kind: 'text' };
const recursive = (summary: string): FlagSpec => ({ name: 'recursive', short: 'r', summary });
const ignoreCase: FlagSpec = { name: 'ignore-case', short: 'i', summary: 'letters of ASCII alike' };

/** All in one file: each is a request and how its answer is printed. */
const files =
  (name: keyof typeof FilesModule) =>
  async (): Promise<{ readonly run: (call: Call) => Promise<number> }> => ({
    run: (await import('./commands/files.ts'))[name],
  });

export const fileCommands: readonly CommandSpec[] = [
  {
    name: 'cp',
    group: 'file',
    summary: 'copy a file or directory into a sandbox, out of it, or from one to another',
    positionals: [
      { name: 'from', kind: 'file' },
      { name: 'to', kind: 'file' },
    ],
    flags: [
      { name: 'force', short: 'f', summary: 'replace a file that is here; in the sandbox it always is' },
    ],
    notes:
      'One of the two is ID:/PATH, or both. Into a directory that is there it goes under its own name. A local - is standard input or output.',
    load: () => import('./commands/cp.ts'),
  },
  {
    name: 'sync',
    group: 'file',
    summary: 'make a directory of a sandbox as one here is, or the other way round, sending what differs',
    positionals: [
      { name: 'from', kind: 'file' },
      { name: 'to', kind: 'file' },
    ],
    flags: [
      { name: 'delete', summary: 'remove what the first directory has not' },
      { name: 'checksum', short: 'c', summary: 'compare contents, not size and time' },
      {
        name: 'exclude',
        value: 'PATTERN',
        repeats: true,
        summary: 'leave alone what matches, on both sides',
      },
      {
        name: 'exclude-from',
        value: 'FILE',
        kind: 'file',
        repeats: true,
        summary: 'the same with the patterns of a file, as in .gitignore',
      },
      { name: 'watch', short: 'w', summary: 'go on with each change' },
      { name: 'dry-run', short: 'n', summary: 'only tell what would be sent and removed' },
    ],
    notes:
      'One of the two is ID:/PATH. What is in the one directory comes to be in the other: squash sync . dev:/root/app. A file .squashignore in the directory here holds patterns, too.',
    load: () => import('./commands/sync.ts'),
  },
  {
    name: 'watch',
    group: 'file',
    summary: 'print what changes in a directory of a sandbox, until it is interrupted',
    positionals: [sandbox, path],
    flags: [recursive('and in all directories below')],
    load: files('watch'),
  },
  {
    name: 'files ls',
    group: 'file',
    summary: 'list a directory of a sandbox',
    positionals: [sandbox, { ...path, optional: true }],
    flags: [
      { name: 'depth', value: 'N', summary: 'and N - 1 directories below it' },
      { name: 'quiet', short: 'q', summary: 'names only' },
    ],
    load: files('list'),
  },
  {
    name: 'files cat',
    group: 'file',
    summary: 'print files of a sandbox, byte for byte',
    positionals: [sandbox, { ...path, repeats: true }],
    flags: [],
    load: files('print'),
  },
  {
    name: 'files stat',
    group: 'file',
    summary: 'what stands at a path of a sandbox',
    positionals: [sandbox, path],
    flags: [{ name: 'follow', short: 'L', summary: 'what a symlink names, not the link' }],
    load: files('stat'),
  },
  {
    name: 'files mkdir',
    group: 'file',
    summary: 'make a directory in a sandbox',
    positionals: [sandbox, path],
    flags: [
      { name: 'parents', short: 'p', summary: 'and those above it; one that is there is no failure' },
      { name: 'mode', short: 'm', value: 'MODE', summary: 'octal, such as 755' },
    ],
    load: files('makeDirectory'),
  },
  {
    name: 'files mv',
    group: 'file',
    summary: 'give a file or directory of a sandbox another path',
    positionals: [sandbox, { name: 'from', kind: 'text' }, { name: 'to', kind: 'text' }],
    flags: [{ name: 'no-clobber', short: 'n', summary: 'only where nothing stands' }],
    load: files('move'),
  },
  {
    name: 'files rm',
    group: 'file',
    summary: 'remove files of a sandbox',
    positionals: [sandbox, { ...path, repeats: true }],
    flags: [
      recursive('directories with everything in them'),
      { name: 'force', short: 'f', summary: 'what is not there is no failure' },
    ],
    load: files('remove'),
  },
  {
    name: 'files find',
    group: 'file',
    summary: 'what below a directory matches a pattern',
    positionals: [sandbox, path, { name: 'pattern', kind: 'text' }],
    flags: [],
    notes: "Such as '**/*.{ts,tsx}'; a leading dot must be written.",
    load: files('find'),
  },
  {
    name: 'files grep',
    group: 'file',
    summary: 'lines that hold a text, in a file or below a directory',
    positionals: [sandbox, path, { name: 'text', kind: 'text' }],
    flags: [
      ignoreCase,
      { name: 'regex', short: 'E', summary: 'the text is a POSIX extended regular expression' },
      { name: 'glob', short: 'g', value: 'PATTERN', summary: 'only in files that match' },
      { name: 'limit', value: 'N', summary: 'at most so many lines (default 100)' },
    ],
    notes: 'Exits with 1 where nothing matches.',
    load: files('grep'),
  },
  {
    name: 'files watch',
    group: 'file',
    summary: 'print what changes, until it is interrupted',
    positionals: [sandbox, path],
    flags: [recursive('and in all directories below')],
    load: files('watch'),
  },
];
