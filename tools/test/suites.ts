/**
 * The suites of `squash test`: which files belong to each, how many run at once, how long one may take.
 *
 * What loads the machine (fork bombs, floods) runs one file at a time: its neighbours would fail for
 * want of CPU, not for a fault. Most of the others wait for a part of their time: one more than there are processors.
 */
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { availableParallelism } from 'node:os';

export const root = new URL('../..', import.meta.url).pathname.replace(/\/$/, '');

export interface Suite {
  readonly name: string;
  /** Node's globs, relative to the project. */
  readonly patterns: readonly string[];
  readonly filesAtOnce: number;
  /** Slow files begin first: none of them runs by itself at the end. */
  readonly first?: RegExp;
  /** Files that load the machine, or count what all of it shares: each runs when no other does, after the rest. */
  readonly alone?: RegExp;
  /** A file that runs longer is ended and counts as failed. */
  readonly fileMsMax: number;
  /** The same with `--long`. */
  readonly fileMsMaxLong: number;
}

const minute = 60_000;
/** Above, files would want more memory and ports than a machine of so many processors need have. */
const processors = Math.min(availableParallelism(), 8);

export const suites: readonly Suite[] = [
  {
    name: 'unit',
    patterns: [
      '{base,contract,policy,installation,groups,host,egress,certificate,cli,sdk,box,build,mcp}/src/**/*.test.ts',
      'codemode/src/{,!(suite)/**/}*.test.ts',
      '{tools,images,bench,packaging}/**/*.test.ts',
    ],
    filesAtOnce: processors + 1,
    fileMsMax: 3 * minute,
    fileMsMaxLong: 10 * minute,
  },
  {
    // The same two hundred programs on each executor, sampled on most. One that starts a process for each takes a minute.
    name: 'codemode',
    patterns: ['codemode/src/suite/*.test.ts'],
    filesAtOnce: processors,
    first: /\/(?:vm2|container)\./,
    fileMsMax: 8 * minute,
    fileMsMaxLong: 60 * minute,
  },
  {
    ...testFolder('e2e', { minutes: 10, minutesLong: 30 }),
    first:
      /\/(?:api-curl|bench|box|box-git|build|cli|contexts|documents|images?(?:-push)?|microvm|microvm-memory|presets|readme|s3-snapshots)\./,
  },
  { ...testFolder('egress', { minutes: 10, minutesLong: 30 }), first: /\/bypass/, alone: /\/floods\./ },
  {
    ...testFolder('security', { minutes: 15, minutesLong: 30 }),
    first: /\/(?:hijack|microvm-own-kernel|microvm-attacks|microvm-control)\./,
    // Two lay what they try in their user's home, and one counts what is in it.
    alone: /\/(?:abuse|box-kills|box-nesting|controls|counted|file-controls|hostile-images|upper-evasion)\./,
  },
  { ...testFolder('faults', { minutes: 15, minutesLong: 300 }), first: /\/(?:crash|mended)\./ },
  {
    ...testFolder('vm', { minutes: 20, minutesLong: 60 }),
    // Each machine is emulated by one thread.
    filesAtOnce: processors,
    first: /\/(?:host-suites|power|(?:system|user)-unit)\./,
  },
];

/**
 * Files that run with `--long`, or where they are named: minutes of a processor each, and what they show is shown in part by others.
 * A run on two processors would take longer than anybody waits for with them.
 */
export const longOnly: readonly string[] = [
  // Its rows run on V8 in `isolated-vm` and `deno` as well; it is the weakest of the executors and says so.
  'codemode/src/suite/vm2.test.ts',
  'codemode/src/suite/soak.test.ts',
  // Two minutes until an emulated machine stands still, and a reader of much is slow there; who is taken for what is shown by native tests.
  'tests/e2e/microvm-thrash.test.ts',
  // The attempts of `box-attacks`, by root of a namespace; programs that nest run in tests/e2e/box-nesting.
  'tests/security/box-nesting.test.ts',
  // Emulated: the harness itself, alice's unit (which `apparmor` installs too) and bob's, and delegation to a box.
  'tests/vm/box-nesting.test.ts',
  'tests/vm/guest.test.ts',
  'tests/vm/power.test.ts',
  'tests/vm/user-unit.test.ts',
];

/**
 * Files of minutes each, most with emulated machines, which are not in each run but in one of three turns. All run with `--long`, and where they
 * are named. What they are about is shown in each run by others, in part: of microVMs `microvm` and `microvm-attacks`, of images `build`, of
 * contexts `contexts`, of previews `ports`.
 * Each turn takes about as long as the others.
 */
export const inTurns: readonly (readonly string[])[] = [
  [
    'tests/e2e/firecracker.test.ts',
    'tests/e2e/images.test.ts',
    'tests/e2e/microvm-fork.test.ts',
    'tests/e2e/ports-browser.test.ts',
    'tools/setup/build-codemode.test.ts',
    'tools/setup/libraries.test.ts',
    'tests/faults/microvm.test.ts',
    'tests/faults/microvm-kills.test.ts',
    'tests/vm/system-unit.test.ts',
  ],
  [
    'tests/e2e/bench.test.ts',
    'tests/e2e/microvm-memory.test.ts',
    'tests/e2e/microvm-mounts.test.ts',
    'tests/e2e/microvm-snapshot.test.ts',
    'tests/e2e/microvm-stopped.test.ts',
    'tests/e2e/image-push.test.ts',
    'tests/security/microvm-control.test.ts',
    'tools/setup/build-programs.test.ts',
    'tests/vm/apparmor.test.ts',
  ],
  [
    'tests/e2e/firecracker-memory.test.ts',
    'tests/e2e/microvm-limits.test.ts',
    'tests/e2e/presets.test.ts',
    'tests/e2e/python-contexts.test.ts',
    'tests/e2e/s3-snapshots.test.ts',
    'tests/faults/microvm-full-disk.test.ts',
    'tests/faults/microvm-restore.test.ts',
    'tests/egress/combinations.test.ts',
    'tests/security/microvm-own-kernel.test.ts',
  ],
];

/**
 * Of which third a run is, by the commit: a commit has the same tests each time, and the next one others. Where there is no commit, by the
 * day. `TEST_TURN=0` to `2` in the environment asks for one.
 */
export function turnOfRun(): number {
  const wanted = /^[0-2]$/.exec(process.env['TEST_TURN'] ?? '')?.[0];
  if (wanted !== undefined) return Number(wanted);
  const { stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' });
  const commit = /^[0-9a-f]{12}/.exec(stdout)?.[0];
  return (
    (commit === undefined ? Math.floor(Date.now() / 86_400_000) : Number.parseInt(commit, 16)) %
    inTurns.length
  );
}

export function isOfTurn(file: string, turn: number): boolean {
  const its = inTurns.findIndex((files) => files.includes(file));
  return its < 0 || its === turn;
}

function testFolder(name: string, limits: { readonly minutes: number; readonly minutesLong: number }): Suite {
  return {
    name,
    patterns: [`tests/${name}/**/*.test.ts`],
    filesAtOnce: processors + 1,
    fileMsMax: limits.minutes * minute,
    fileMsMaxLong: limits.minutesLong * minute,
  };
}

const pooled = ['e2e', 'egress', 'security', 'faults'];

/**
 * The suites as they run, one after the other. Those of `pooled` are one: files of theirs that wait (for ends, for time) run beside
 * files that work, and one time only do processors wait for a last file.
 */
export function stagesOf(wanted: readonly Suite[]): readonly Suite[] {
  const parts = wanted.filter(({ name }) => pooled.includes(name));
  if (parts.length < 2) return wanted;
  const pool = { ...together(parts), name: parts.map(({ name }) => name).join(', ') };
  return wanted.flatMap((suite) => (suite === parts[0] ? [pool] : parts.includes(suite) ? [] : [suite]));
}

/** Their files as those of one suite: none waits for the last file of another. */
export function together(parts: readonly Suite[]): Suite {
  const either = (expressions: readonly (RegExp | undefined)[]): RegExp =>
    new RegExp(expressions.flatMap((one) => (one === undefined ? [] : [one.source])).join('|') || '(?!)');
  return {
    name: 'files',
    patterns: parts.flatMap(({ patterns }) => patterns),
    filesAtOnce: Math.min(...parts.map(({ filesAtOnce }) => filesAtOnce)),
    first: either(parts.map(({ first }) => first)),
    alone: either(parts.map(({ alone }) => alone)),
    fileMsMax: Math.max(...parts.map(({ fileMsMax }) => fileMsMax)),
    fileMsMaxLong: Math.max(...parts.map(({ fileMsMaxLong }) => fileMsMaxLong)),
  };
}

/**
 * The suite's test files; with patterns only those whose path contains one of them. In the order of their names, those of each of
 * its globs spread over the whole: what runs at the same time is of several kinds.
 */
export function filesOf(suite: Suite, patterns: readonly string[]): readonly string[] {
  return suite.patterns
    .flatMap((glob) => {
      const files = globSync(glob, { cwd: root, exclude: (name) => name === 'node_modules' })
        .filter((path) => isWanted(path, patterns))
        .sort();
      return files.map((file, index) => ({ file, place: (index + 0.5) / files.length }));
    })
    .sort((a, b) => a.place - b.place)
    .map(({ file }) => file);
}

export function isWanted(name: string, patterns: readonly string[]): boolean {
  return patterns.length === 0 || patterns.some((pattern) => name.includes(pattern));
}
