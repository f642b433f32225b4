/**
 * `squash bench`: measures Squash and its peers in one run and writes `docs/performance.md`.
 *
 * Everything it starts lives below one temporary directory and ends with the run, also on Ctrl-C. The peers
 * and the daemon are prepared once, before the first clock starts.
 */
import { chmod, mkdtemp, mkdir, readFile } from 'node:fs/promises';
import { freemem } from 'node:os';
import { join } from 'node:path';
import { budgets, judge } from './budgets.ts';
import { machineFacts } from './measure/machine.ts';
import { runScenario, withinDeadline } from './measure/rounds.ts';
import type { AbsentSubject, ScenarioResult } from './measure/scenario.ts';
import { type Options, parseOptions, type ScenarioId, scenarioIds, usage } from './options.ts';
import { preparePeers } from './peers/all.ts';
import { makeRootfs } from './peers/rootfs.ts';
import { announce, note } from './progress.ts';
import { RunRecord } from './record.ts';
import { outcome, performancePage } from './report.ts';
import { buildsScenario } from './scenarios/builds.ts';
import { boxScenario } from './scenarios/box.ts';
import { burstScenario } from './scenarios/burst.ts';
import { cellsScenario } from './scenarios/cells.ts';
import { cliScenario } from './scenarios/cli.ts';
import { codemodeColdScenario } from './scenarios/codemode-cold.ts';
import { codemodeScenario } from './scenarios/codemode.ts';
import type { Context, ScenarioFactory } from './scenarios/context.ts';
import { createScenario } from './scenarios/create.ts';
import { execScenario } from './scenarios/exec.ts';
import { layersScenario } from './scenarios/layers.ts';
import { floodScenario } from './scenarios/flood.ts';
import { groupsScenario } from './scenarios/groups.ts';
import { imagesScenario } from './scenarios/images.ts';
import { interceptScenario } from './scenarios/intercept.ts';
import { memoryScenario } from './scenarios/memory.ts';
import { s3Scenario } from './scenarios/s3.ts';
import { snapshotScenario } from './scenarios/snapshot.ts';
import { snapshotNextScenario } from './scenarios/snapshot-next.ts';
import { syncScenario } from './scenarios/sync.ts';
import { transferScenario } from './scenarios/transfer.ts';
import { tunnelScenario } from './scenarios/tunnel.ts';
import { type SquashUnderTest, startSquash } from './squash/daemon.ts';
import { vmScenario } from './scenarios/vm.ts';
import type { Measured, RunFacts } from './state.ts';
import { removeDataDirectory } from '../tests/support/data-directory.ts';
import { prepareLayers } from '../tools/test/layers.ts';

const root = join(import.meta.dirname, '..');
const cacheDir = join(root, '.cache/bench');
const statePath = join(cacheDir, 'run.json');

const factories: Readonly<Record<ScenarioId, ScenarioFactory>> = {
  exec: execScenario,
  cells: cellsScenario,
  cli: cliScenario,
  box: boxScenario,
  create: createScenario,
  burst: async (context) => await burstScenario(context, freemem()),
  'snapshot-1': snapshotScenario(1, 15),
  'snapshot-10': snapshotScenario(10, 20),
  'snapshot-100': snapshotScenario(100, 8),
  'snapshot-500': snapshotScenario(500, 4),
  'snapshot-next': snapshotNextScenario,
  images: imagesScenario,
  builds: buildsScenario,
  s3: s3Scenario,
  memory: memoryScenario,
  groups: groupsScenario,
  vm: async (context, stack) => await vmScenario(context, stack, root),
  layers: async (context, stack) => await layersScenario(context, stack, cacheDir),
  transfer: transferScenario,
  sync: syncScenario,
  tunnel: tunnelScenario,
  intercept: interceptScenario,
  flood: floodScenario,
  codemode: async (context, stack) => await codemodeScenario(context, stack, cacheDir),
  'codemode-cold': async (context) => await codemodeColdScenario(context, cacheDir),
};

async function main(args: readonly string[]): Promise<void> {
  const options = parseOptions(args, join(root, 'docs/performance.md'));
  if (options === 'help') {
    process.stdout.write(usage);
    return;
  }
  const interrupt = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => interrupt.abort(new Error(`ended by ${name}; --resume goes on`)));
  }
  const notes = await readFile(join(import.meta.dirname, 'notes.md'), 'utf8');
  const record = await RunRecord.open({
    statePath,
    pagePath: options.out,
    notes,
    keeps: !options.quick,
    isWhole: options.only.length === 0,
  });
  await measure(options, record, interrupt.signal);
  const { measured } = record;
  process.stdout.write(
    options.json ? `${JSON.stringify(asJson(measured), undefined, 2)}\n` : performancePage(measured, notes),
  );
}

async function measure(options: Options, record: RunRecord, signal: AbortSignal): Promise<void> {
  // Not below /tmp's tmpfs where there is one: layers and uppers belong on a disk.
  await using stack = new AsyncDisposableStack();
  const workDir = await mkdtemp(join(process.env['TMPDIR'] ?? '/var/tmp', 'squash-bench-'));
  // Of an ordinary user much of it belongs to his subordinate ids.
  stack.defer(async () => await removeDataDirectory(workDir));
  const machine = await machineFacts(root, workDir);
  const wanted = options.only.length > 0 ? options.only : scenarioIds.filter((id) => fits(id, options));
  const finished = options.resume ? record.resume(machine.commit) : new Set<ScenarioId>();
  const left = wanted.filter((id) => !finished.has(id));
  const startedAt = record.resumed?.startedAt ?? new Date().toISOString();
  const context = await prepare(workDir, options, stack);
  const run: RunFacts = { ...machine, startedAt, quick: options.quick, peerNotes: notesOf(context) };
  for (const [index, id] of left.entries()) {
    announce(left.slice(index), options.quick);
    try {
      await record.add({ run, result: await runOne(factories[id], context, signal) });
    } catch (error) {
      signal.throwIfAborted();
      // The others are worth having without it.
      note(`  ${id} failed: ${reason(error)}`);
      process.exitCode = 1;
    }
  }
}

/** --quick leaves out what takes long by its nature. */
function fits(id: ScenarioId, { quick }: Options): boolean {
  return !quick || (id !== 'snapshot-100' && id !== 'snapshot-500');
}

async function prepare(workDir: string, options: Options, stack: AsyncDisposableStack): Promise<Context> {
  // Not in a scenario's own limit, where a first build of some minutes would end it and leave the next one waiting for its lock.
  await prepareLayers(['tests/egress/world/world.ts', 'tests/e2e/contexts.test.ts']);
  note('preparing peers …');
  await mkdir(cacheDir, { recursive: true });
  // Other ids than the owner's walk through here: image tools run under a sandbox's map.
  await chmod(workDir, 0o755);
  const rootfs = await makeRootfs(join(workDir, 'rootfs'));
  const peers = await preparePeers({ workDir, cacheDir, rootfs }, stack);
  note('starting squash …');
  let squash: SquashUnderTest | AbsentSubject;
  try {
    squash = await startSquash({ root, dataDir: join(workDir, 'data'), rootfs }, stack);
  } catch (error) {
    squash = { name: 'Squash', absent: reason(error) };
  }
  return { quick: options.quick, workDir, peers, squash };
}

async function runOne(
  factory: ScenarioFactory,
  context: Context,
  signal: AbortSignal,
): Promise<ScenarioResult> {
  await using stack = new AsyncDisposableStack();
  const started = performance.now();
  const result = await runScenario(await withinDeadline(factory(context, stack)), signal);
  for (const { name, absent } of result.absent) note(`  ${name}: ${absent}`);
  // What it set up for itself counts: that is what whoever waits, waits.
  const seconds = (performance.now() - started) / 1000;
  note(`  ${Math.round(seconds)} s`);
  return { ...result, seconds };
}

function notesOf({ peers }: Context): string[] {
  return [
    ...peers.present.map((peer) => `${peer.name}: ${peer.note}`),
    ...peers.absent.map(({ name, absent }) => `${name}: can't run here: ${absent}`),
  ];
}

function asJson(measured: readonly Measured[]): unknown {
  const results = measured.map(({ result }) => result);
  const verdicts = budgets.map((budget) => judge(budget, results));
  return {
    measured,
    budgets: verdicts.map((verdict) => ({
      what: verdict.budget.what,
      limit: verdict.budget.limit,
      measured: verdict.value ?? null,
      outcome: outcome(verdict),
    })),
  };
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  // A wrong option is the user's to mend; the trace of anything else is ours.
  const text = error instanceof TypeError ? `squash bench: ${error.message}` : error;
  console.error(text);
  process.exitCode = 1;
}
