/**
 * Runs test files with Node's own runner, one process per file, and prints a line for each.
 *
 * Counted are tests, not the suites around them: a suite that fails only repeats its tests' failure, unless
 * its hook failed. A file that dies while loading, or is ended for its time, is one failed test.
 */
import { once } from 'node:events';
import { join } from 'node:path';
import { run } from 'node:test';
import { isSkipAllowed, type Machine } from './allowed-skips.ts';
import { root, type Suite } from './suites.ts';
import { add, emptyTally, printOutcome, seconds, type Tally } from './tally.ts';

/** Output of a failed file that is printed, from its end. */
const outputCharsMax = 20_000;

interface FileResult {
  tally: Tally;
  /** What is printed below the file's line. */
  problems: string[];
  output: string;
}

export async function runFiles(suite: Suite, files: readonly string[], machine: Machine): Promise<Tally> {
  const waiting = [...files];
  let total = emptyTally;
  async function worker(): Promise<void> {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const tally = await runFile(suite, file, machine);
      total = add(total, tally);
    }
  }
  await Promise.all(Array.from({ length: suite.filesAtOnce }, worker));
  return total;
}

async function runFile(suite: Suite, file: string, machine: Machine): Promise<Tally> {
  const began = performance.now();
  const result: FileResult = { tally: emptyTally, problems: [], output: '' };
  const limitMs = machine.isLongRun ? suite.fileMsMaxLong : suite.fileMsMax;
  const deadline = AbortSignal.timeout(limitMs);
  const events = run({ files: [join(root, file)], signal: deadline, isolation: 'process', cwd: root });
  events.on('test:pass', ({ name, skip, todo, details }) => {
    if (todo !== undefined && todo !== false) fail(result, `${name}: is marked as to do`);
    else if (skip !== undefined && skip !== false) takeSkip({ name, reason: String(skip) }, result, machine);
    else if (details.type !== 'suite') result.tally = add(result.tally, { ...emptyTally, passed: 1 });
  });
  events.on('test:fail', ({ name, details }) => {
    if (!isEcho(details.error)) fail(result, `${name}: ${describe(details.error)}`);
  });
  for (const name of ['test:stdout', 'test:stderr'] as const) {
    events.on(name, ({ message }) => {
      result.output = (result.output + message).slice(-2 * outputCharsMax);
    });
  }
  await once(events.resume(), 'end');
  if (deadline.aborted)
    fail(result, `ended after ${limitMs / 1000} s, the limit of a file in "${suite.name}"`);
  const { passed, failed, skipped } = result.tally;
  if (passed + failed + skipped === 0) fail(result, 'holds no test');
  const note = `${passed} passed${skipped > 0 ? `, ${skipped} skipped` : ''} in ${seconds(began)}`;
  printOutcome({ ok: result.tally.failed === 0, name: file, note });
  if (result.tally.failed > 0) {
    for (const problem of result.problems) console.log(indent(problem));
    if (result.output !== '') console.log(indent(`--- output\n${result.output.slice(-outputCharsMax)}`));
  }
  return result.tally;
}

/** A suite, or a test with parts, that failed only because one of its parts did. */
function isEcho(error: Error): boolean {
  return 'failureType' in error && error.failureType === 'subtestsFailed';
}

function takeSkip(
  skip: { readonly name: string; readonly reason: string },
  result: FileResult,
  machine: Machine,
): void {
  const { name, reason } = skip;
  if (isSkipAllowed(reason, machine)) {
    result.tally = add(result.tally, { ...emptyTally, skipped: 1 });
  } else {
    fail(result, `${name}: skipped ("${reason}"), which tools/test/allowed-skips.ts does not allow here`);
  }
}

function fail(result: FileResult, problem: string): void {
  result.tally = add(result.tally, { ...emptyTally, failed: 1 });
  result.problems.push(problem);
}

function describe(error: Error): string {
  const cause = error.cause instanceof Error ? error.cause : error;
  return cause.stack ?? cause.message;
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, '       ');
}
