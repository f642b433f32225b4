/**
 * The suites of `squash test`: which files belong to each, how many run at once, how long one may take.
 *
 * A suite that loads the machine (fork bombs, full disks, an emulated machine) runs one file at a time: its
 * neighbours would fail for want of CPU, not for a fault.
 */
import { globSync } from 'node:fs';

export const root = new URL('../..', import.meta.url).pathname.replace(/\/$/, '');

export interface Suite {
  readonly name: string;
  /** Node's globs, relative to the project. */
  readonly patterns: readonly string[];
  readonly filesAtOnce: number;
  /** A file that runs longer is ended and counts as failed. */
  readonly fileMsMax: number;
  /** The same with `--long`. */
  readonly fileMsMaxLong: number;
}

const minute = 60_000;

export const suites: readonly Suite[] = [
  {
    name: 'unit',
    patterns: [
      '{base,contract,policy,installation,host,egress,cli}/src/**/*.test.ts',
      'codemode/src/{,!(suite)/**/}*.test.ts',
      '{tools,images,bench,packaging}/**/*.test.ts',
    ],
    filesAtOnce: 2,
    fileMsMax: 3 * minute,
    fileMsMaxLong: 10 * minute,
  },
  {
    // The same two hundred programs on each executor, sampled on most. One that starts a process for each takes a minute.
    name: 'codemode',
    patterns: ['codemode/src/suite/*.test.ts'],
    filesAtOnce: 2,
    fileMsMax: 8 * minute,
    fileMsMaxLong: 60 * minute,
  },
  testFolder('e2e', { filesAtOnce: 2, minutes: 6, minutesLong: 30 }),
  testFolder('egress', { filesAtOnce: 1, minutes: 10, minutesLong: 30 }),
  testFolder('security', { filesAtOnce: 1, minutes: 10, minutesLong: 30 }),
  testFolder('faults', { filesAtOnce: 1, minutes: 15, minutesLong: 300 }),
  testFolder('vm', { filesAtOnce: 1, minutes: 20, minutesLong: 60 }),
];

function testFolder(
  name: string,
  limits: { readonly filesAtOnce: number; readonly minutes: number; readonly minutesLong: number },
): Suite {
  return {
    name,
    patterns: [`tests/${name}/**/*.test.ts`],
    filesAtOnce: limits.filesAtOnce,
    fileMsMax: limits.minutes * minute,
    fileMsMaxLong: limits.minutesLong * minute,
  };
}

/** The suite's test files, sorted; with a pattern only those whose path contains it. */
export function filesOf(suite: Suite, pattern: string | undefined): readonly string[] {
  return globSync([...suite.patterns], { cwd: root, exclude: (name) => name === 'node_modules' })
    .filter((path) => pattern === undefined || path.includes(pattern))
    .sort();
}
