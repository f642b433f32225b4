/**
 * Checks that are a program's exit status: linters, types, the native programs' own tests. Each counts as one
 * test, or as many as it announces with a line `== name` (the native Makefile does, per test program).
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { isWanted, root } from './suites.ts';
import { add, emptyTally, printOutcome, seconds, type Tally } from './tally.ts';

interface Check {
  readonly name: string;
  readonly argv: readonly [string, ...string[]];
  readonly msMax: number;
}

const minute = 60_000;
const bin = (name: string) => join(root, 'node_modules/.bin', name);

const lintChecks: readonly Check[] = [
  { name: 'oxlint', argv: [bin('oxlint'), '--type-aware'], msMax: 5 * minute },
  { name: 'format', argv: [bin('biome'), 'format', '.'], msMax: 2 * minute },
  { name: 'types', argv: [bin('tsc'), '--noEmit'], msMax: 5 * minute },
  { name: 'unused', argv: [bin('knip')], msMax: 5 * minute },
  { name: 'shellcheck', argv: ['sh', '-c', shellScripts()], msMax: 2 * minute },
];

/** Every tracked or new file with a shell's first line. */
function shellScripts(): string {
  return `git ls-files -co --exclude-standard -z | xargs -0 grep -lIEZ '^#!.*\\b(ba)?sh$' -- | xargs -0r shellcheck -x --`;
}

/** Compiles, and fuzzes, as much at once as there are processors. */
const make = (target: string) =>
  ['make', '-C', 'native', `--jobs=${availableParallelism()}`, '--output-sync', target] as const;

const nativeChecks: readonly Check[] = [
  { name: 'native unit tests and vectors', argv: make('test'), msMax: 10 * minute },
];

/** Minutes of a processor, for what changes seldom: with `--long`, or where they are named. */
const longNativeChecks: readonly Check[] = [
  { name: 'native aarch64', argv: make('aarch64'), msMax: 10 * minute },
  { name: 'native fuzz', argv: make('fuzz'), msMax: 10 * minute },
];

export function runLint(patterns: readonly string[]): Promise<Tally> {
  return runChecks(lintChecks, patterns);
}

export function runNative(options: {
  readonly long: boolean;
  readonly patterns: readonly string[];
}): Promise<Tally> {
  const { long, patterns } = options;
  return runChecks([...nativeChecks, ...(long || patterns.length > 0 ? longNativeChecks : [])], patterns);
}

async function runChecks(checks: readonly Check[], patterns: readonly string[]): Promise<Tally> {
  let total = emptyTally;
  for (const check of checks) {
    if (!isWanted(check.name, patterns)) continue;
    const began = performance.now();
    const { ok, output } = await runProgram(check);
    printOutcome({ ok, name: check.name, note: seconds(began) });
    if (!ok) console.log(output);
    const announced = output.match(/^== /gm)?.length ?? 1;
    total = add(total, { ...emptyTally, passed: ok ? announced : 0, failed: ok ? 0 : 1 });
  }
  return total;
}

/** The programs' scripts start `node`: they get the one that runs this. */
const env = {
  ...process.env,
  PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? '/usr/bin:/bin'}`,
};

function runProgram(check: Check): Promise<{ readonly ok: boolean; readonly output: string }> {
  const [program, ...args] = check.argv;
  if (program.startsWith('/') && !existsSync(program)) {
    return Promise.resolve({ ok: false, output: `${program} is missing: npm ci` });
  }
  return new Promise((resolve) => {
    const child = spawn(program, args, {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: check.msMax,
    });
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.on('error', (error) => resolve({ ok: false, output: error.message }));
    child.on('close', (code) => resolve({ ok: code === 0, output: Buffer.concat(chunks).toString() }));
  });
}
