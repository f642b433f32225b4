/**
 * Runs test files with Node's own runner, one process per file, and prints a line for each.
 *
 * Counted are tests, not the suites around them: a suite that fails only repeats its tests' failure, unless
 * its hook failed. A file that dies while loading, or is ended for its time, is one failed test.
 *
 * A file that fails is run once more when no other file runs, and what it does then is what counts: a test that
 * fails only beside others is a fault of the test, which is told (`flaky`) and fails nothing.
 */
import { once } from 'node:events';
import { join } from 'node:path';
import { run } from 'node:test';
import { abandonedDirectories, removeAbandoned } from '../../tests/support/owned-directory.ts';
import { isSkipAllowed, type Machine } from './allowed-skips.ts';
import { root, type Suite } from './suites.ts';
import { add, emptyTally, printOutcome, seconds, type Tally } from './tally.ts';

/** Output of a failed file that is printed, from its end. */
const outputCharsMax = 20_000;

interface FileResult {
  tally: Tally;
  /** What is printed below the file's line: what its tests say themselves, and where it failed its problems. */
  said: string[];
  problems: string[];
  output: string;
}

export async function runFiles(suite: Suite, files: readonly string[], machine: Machine): Promise<Tally> {
  const isAlone = (file: string) => suite.alone?.test(file) === true;
  const isFirst = (file: string) => suite.first?.test(file) === true;
  const failed: { readonly file: string; readonly report: string }[] = [];
  let total = emptyTally;
  async function worker(waiting: string[]): Promise<void> {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      const { tally, report } = await runFile(suite, file, machine);
      if (tally.failed > 0) failed.push({ file, report });
      else total = add(total, tally);
    }
  }
  const together = files.filter((file) => !isAlone(file));
  const inOrder = [...together.filter(isFirst), ...together.filter((file) => !isFirst(file))];
  await Promise.all(Array.from({ length: suite.filesAtOnce }, () => worker(inOrder)));
  await worker(files.filter(isAlone));
  for (const { file, report } of failed) {
    // What the first run left (its daemon, when it was ended for its time) would be the second one's neighbour.
    await endWhatIsLeft();
    console.log('  again, with no other file beside it:');
    const second = await runFile(suite, file, machine);
    total = add(total, second.tally);
    if (second.tally.failed > 0) continue;
    const text = `--- the first run\n${report}\n--- the second run, alone\n${second.report}`;
    total = add(total, {
      ...emptyTally,
      flaky: [`flaky ${file}  failed, then passed alone\n${indent(text)}`],
    });
  }
  return total;
}

/** Ends and removes what tests have left that were killed. */
export async function endWhatIsLeft(): Promise<void> {
  for (const directory of abandonedDirectories()) {
    console.log(`left by a test that was killed, removed: ${directory}`);
    await removeAbandoned(directory);
  }
}

async function runFile(
  suite: Suite,
  file: string,
  machine: Machine,
): Promise<{ readonly tally: Tally; readonly report: string }> {
  const began = performance.now();
  const result: FileResult = { tally: emptyTally, said: [], problems: [], output: '' };
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
  events.on('test:diagnostic', ({ message, file: from }) => {
    // Node's own counts come from no file.
    if (from !== undefined) result.said.push(message);
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
  for (const line of result.said) console.log(indent(line));
  const output = result.output === '' ? [] : [`--- output\n${result.output.slice(-outputCharsMax)}`];
  const report = [...result.problems, ...output].join('\n');
  if (result.tally.failed > 0) console.log(indent(report));
  return { tally: result.tally, report: `${note}\n${report}` };
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
