/**
 * What was measured as a page: `docs/performance.md` and, the same text, the terminal.
 *
 * Figures are medians and ratios of one run on one machine. The page promises nothing absolute: another machine has
 * another S. Scenarios may come from different runs; those that are not of the newest one say so.
 */
import { budgets, judge, type Verdict } from './budgets.ts';
import type { Metric, ScenarioResult } from './measure/scenario.ts';
import { summarise } from './measure/stats.ts';
import { type Measured, newestRun, type RunFacts } from './state.ts';

/** @param notes below the figures */
export function performancePage(measured: readonly Measured[], notes: string): string {
  const runs = runsOf(measured);
  return [
    '# Performance',
    '',
    "Written by `./squash bench`; edit `bench/` instead. In each section all subjects took turns in one run. **S** is the median of a bare `spawn('/bin/true')` from Node between the same turns: compare ratios to S, not milliseconds, with another machine. **Hot S** is the median of five bare spawns right before one sample, in the same process, and the ratio is that sample's.",
    '',
    ...runs.map((run) => runLine(run, measured)),
    '',
    '## Budgets',
    '',
    ...budgetTable(measured, runs),
    '',
    ...measured.flatMap((one) => scenarioLines(one.result, foreignRun(one.run, runs))),
    ...peerLines(runs),
    ...(notes === '' ? [] : [notes.trim(), '']),
  ].join('\n');
}

/** The newest first. */
function runsOf(measured: readonly Measured[]): readonly RunFacts[] {
  const newest = newestRun(measured);
  if (newest === undefined) return [];
  return [newest, ...runsOf(measured.filter(({ run }) => run.startedAt !== newest.startedAt))];
}

function runLine(run: RunFacts, measured: readonly Measured[]): string {
  const results = measured.filter((one) => one.run.startedAt === run.startedAt).map(({ result }) => result);
  const seconds = results.reduce((sum, result) => sum + result.seconds, 0);
  const machine = `${run.cores} × ${run.cpu}, ${run.memoryGb} GB, ${run.system}, Linux ${run.kernel}`;
  const way = `Node ${run.node}, as ${run.user}, cgroup ${run.cgroups}, data on ${run.fileSystem}`;
  const spawns = summaryText(results.flatMap(({ spawnMs }) => spawnMs));
  const ids = results.map(({ id }) => id).join(', ');
  return `- Run of ${runName(run)}${run.quick ? ' (**quick: few samples**)' : ''}, ${Math.round(seconds)} s: ${ids}. ${machine}; ${way}. S ${spawns}.`;
}

function runName({ startedAt, commit }: RunFacts): string {
  return `${startedAt.slice(0, 16).replace('T', ' ')} UTC, commit ${commit}`;
}

/** What a reader has to be told of a figure that is not of the newest run. */
function foreignRun(run: RunFacts, [newest]: readonly RunFacts[]): string | undefined {
  return run.startedAt === newest?.startedAt ? undefined : `of the run of ${runName(run)}`;
}

function peerLines(runs: readonly RunFacts[]): string[] {
  const notes = new Set(runs.flatMap((run) => run.peerNotes));
  return notes.size === 0 ? [] : ['## Peers', '', ...[...notes].map((line) => `- ${line}`), ''];
}

function summaryText(samples: readonly number[]): string {
  const { min, median, p95 } = summarise(samples);
  return `min ${figure(min)} ms, median ${figure(median)} ms, p95 ${figure(p95)} ms`;
}

function budgetTable(measured: readonly Measured[], runs: readonly RunFacts[]): string[] {
  const results = measured.map(({ result }) => result);
  const rows = budgets.map((budget) => {
    const verdict = judge(budget, results);
    const run = measured.find(({ result }) => result.id === budget.scenario)?.run;
    const foreign = run === undefined ? undefined : foreignRun(run, runs);
    const said = foreign === undefined ? outcome(verdict) : `${outcome(verdict)}, ${foreign}`;
    return [budget.what, `≤ ${inUnit(verdict, budget.limit)}`, value(verdict), said];
  });
  return table(['what', 'budget', 'measured', ''], rows);
}

function inUnit({ budget }: Verdict, value: number): string {
  if (typeof budget.per === 'string') return `${figure(value)} ${budget.per}`;
  return `${figure(value)} ×`;
}

function value(verdict: Verdict): string {
  return verdict.value === undefined ? '' : inUnit(verdict, verdict.value);
}

export function outcome({ budget, value }: Verdict): 'not measured' | 'pass' | 'FAIL' {
  if (value === undefined) return 'not measured';
  return value <= budget.limit ? 'pass' : 'FAIL';
}

function scenarioLines(scenario: ScenarioResult, foreign: string | undefined): string[] {
  return [
    `## ${scenario.title}`,
    '',
    scenario.about,
    ...(foreign === undefined ? [] : [`These figures are ${foreign}.`]),
    `S here: ${summaryText(scenario.spawnMs)}.`,
    '',
    ...scenario.metrics.flatMap((metric) => metricLines(scenario, metric)),
    ...scenario.absent.map(({ name, absent }) => `- ${name}: not measured: ${absent}`),
    ...(scenario.absent.length > 0 ? [''] : []),
  ];
}

function metricLines(scenario: ScenarioResult, metric: Metric): string[] {
  const results = scenario.results.filter((result) => result.metric === metric.id);
  if (results.length === 0) return [];
  const spawn = summarise(scenario.spawnMs).median;
  const inTime = metric.unit === 'ms';
  const rows = results.map(({ subject, samples }) => {
    const { count, min, median, p95 } = summarise(samples);
    const ratio = inTime ? [figure(median / spawn)] : [];
    return [subject, figure(min), figure(median), figure(p95), ...ratio, String(count)];
  });
  const head = [`${metric.title} (${metric.unit})`, 'min', 'median', 'p95', ...(inTime ? ['÷ S'] : []), 'n'];
  return [...table(head, rows), ''];
}

/** Three significant digits, no exponent: what the spread of such samples can carry. */
export function figure(value: number): string {
  if (value === 0) return '0';
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(digits, 3));
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = head.map((_, column) =>
    Math.max(...[head, ...rows].map((row) => cellWidth(row[column] ?? ''))),
  );
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => pad(cell, widths[column] ?? 0, column)).join(' | ')} |`;
  const rule = widths.map((width, column) =>
    column === 0 ? '-'.repeat(width) : `${'-'.repeat(Math.max(width - 1, 1))}:`,
  );
  return [line(head), line(rule), ...rows.map(line)];
}

/** First column to the left, figures to the right. */
function pad(cell: string, width: number, column: number): string {
  const space = ' '.repeat(Math.max(0, width - cellWidth(cell)));
  return column === 0 ? cell + space : space + cell;
}

/** Code points, not UTF-16 units; none of the cells has combining marks. */
function cellWidth(cell: string): number {
  return Array.from(cell).length;
}
