/**
 * `squash test [--long] [--only SUITE]… [--no-user] [pattern]…`: every check of the project, in one run.
 *
 * Order: what is quick and finds most comes first. Started by root, what differs for an ordinary user runs
 * once more as one with subordinate ids, and some of it as one without. Ends with a report for each flaky file, then
 * `N passed, N failed, N skipped`, and a status that is not 0 when a test failed or skipped without leave.
 */
import { cpus } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { thisMachine } from './allowed-skips.ts';
import { asUsersAlone, removeLeftUsers, runAsUsers } from './as-user.ts';
import { runLint, runNative } from './checks.ts';
import { needsLayers, prepareLayers } from './layers.ts';
import { runOnVms } from './on-vm.ts';
import { endWhatIsLeft, runFiles } from './run-files.ts';
import {
  filesOf,
  isOfTurn,
  longOnly,
  root,
  stagesOf,
  type Suite,
  suites,
  together,
  turnOfRun,
} from './suites.ts';
import { add, emptyTally, seconds, type Tally, tallyLine } from './tally.ts';

const names = ['lint', 'native', ...suites.map((suite) => suite.name), 'on-vm', 'user'];

const usage = `Usage: squash test [--long] [--only SUITE]… [--no-user] [pattern]…

Every check of the project; the last line is the count. With patterns only files whose path contains one of them.

  --only SUITE  one part: ${names.join(', ')}
  --long        also what takes hours: 1,000 points of the crash suite, fuzzing and aarch64, all of codemode's
                suite on each executor, power cuts, end-to-end suite whole as every user, on-vm
  --no-user     not again as ordinary users (only root can)
`;

interface Options {
  readonly only: readonly string[];
  readonly long: boolean;
  readonly withUsers: boolean;
  /** Of several suites at once: for a few files of many. */
  readonly isTogether: boolean;
  readonly patterns: readonly string[];
}

function parseOptions(): Options {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      long: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true, default: [] },
      'no-user': { type: 'boolean', default: false },
      together: { type: 'boolean', default: false },
      'check-words': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(usage);
    process.exit(0);
  }
  const only = values.only.flatMap((list) => list.split(','));
  const unknown = only.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Error(`no suite "${unknown}"; there are ${names.join(', ')}`);
  // Asked by `squash` before it installs what tests need.
  if (values['check-words']) process.exit(0);
  return {
    only,
    long: values.long,
    withUsers: !values['no-user'],
    isTogether: values.together,
    patterns: positionals,
  };
}

async function main(): Promise<Tally> {
  const options = parseOptions();
  const machine = thisMachine(options.long);
  // Tests that have a long form read this.
  if (options.long) {
    process.env['TEST_LONG'] = '1';
    delete process.env['TEST_TURN'];
  }
  // Each file is a process, and would strip the types of the same sources again. Node looks whether an entry still fits.
  process.env['NODE_COMPILE_CACHE'] ??= join(root, '.cache/test-compiled/tests');
  const isWanted = (name: string) => options.only.length === 0 || options.only.includes(name);
  await endWhatIsLeft();
  if (machine.isRoot) removeLeftUsers();
  let total = emptyTally;
  async function stage(name: string, work: () => Promise<Tally>): Promise<void> {
    const began = performance.now();
    const before = processorMs();
    console.log(`\n${name}`);
    total = add(total, await work());
    const busy = (processorMs() - before) / (performance.now() - began);
    console.log(`  ${name} took ${seconds(began)}, ${busy.toFixed(1)} of ${cpus().length} processors busy`);
  }
  const wanted = suites.filter(({ name }) => isWanted(name));
  const hasUsers = machine.isRoot && options.withUsers && isWanted('user');
  const isWhole = options.long || options.patterns.length > 0;
  const isInRun = isWhole ? () => true : sampled();
  const files = (suite: Suite) => filesOf(suite, options.patterns).filter(isInRun);
  // One processor and downloads: the linters and the native tests run meanwhile.
  const layers = prepareLayers(wanted.flatMap(files));
  let isPrepared = false;
  // Whoever awaits it is told.
  layers.then(
    () => (isPrepared = true),
    () => undefined,
  );
  const isLeft = (file: string) => !isWhole && hasUsers && asUsersAlone.includes(file);
  if (isWanted('lint')) await stage('lint', () => runLint(options.patterns));
  if (isWanted('native')) await stage('native', () => runNative(options));
  for (const suite of options.isTogether ? [together(wanted)] : stagesOf(wanted)) {
    const here = files(suite).filter((file) => !isLeft(file));
    if (here.length > 0) {
      await stage(suite.name, async () => {
        // Builds wait for downloads, and use one processor: what needs none of them runs beside.
        const isEarly = (file: string) => !isPrepared && !needsLayers(file);
        const early = here.filter(isEarly);
        const first = await runFiles(suite, early, machine);
        await layers;
        const others = here.filter((file) => !early.includes(file));
        return add(first, await runFiles(suite, others, machine));
      });
    }
  }
  if (isWanted('on-vm')) {
    // Whoever names files and this part wants them; who names files alone is not kept waiting for machines.
    const isNamed = options.only.length > 0 && options.patterns.length > 0;
    const { long: isLong, patterns } = options;
    await stage('on-vm', () => runOnVms({ isLong, isNamed, patterns }, machine));
  }
  if (hasUsers) {
    await stage('user', () => runAsUsers({ long: options.long, patterns: options.patterns }));
  }
  return total;
}

/** Tests that try many things a third at a time read the turn, too. */
function sampled(): (file: string) => boolean {
  const turn = turnOfRun();
  process.env['TEST_TURN'] = String(turn);
  console.log(`of what takes turns: turn ${turn}`);
  return (file) => !longOnly.includes(file) && isOfTurn(file, turn);
}

/** What all processors of this machine have worked, whoever they worked for: most of a test's processes are nobody's child here. */
function processorMs(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
}

const began = performance.now();
try {
  const total = await main();
  console.log(`\ntotal time ${seconds(began)}`);
  for (const report of total.flaky) console.log(report);
  console.log(tallyLine(total));
  process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;
} catch (error) {
  console.error(`squash test: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 2;
}
