/**
 * The run as a page: `docs/performance.md` and, the same text, the terminal.
 *
 * Figures are medians and ratios of this run on this machine. The page promises nothing absolute: another
 * machine has another S.
 */
import { budgets, judge, type Verdict } from './budgets.ts';
import type { Machine } from './measure/machine.ts';
import type { Metric, ScenarioResult } from './measure/scenario.ts';
import { summarise } from './measure/stats.ts';

export interface Run {
  readonly machine: Machine;
  readonly quick: boolean;
  readonly peerNotes: readonly string[];
  readonly scenarios: readonly ScenarioResult[];
}

export function runPage(run: Run, notes: string): string {
  return [
    '# Performance',
    '',
    "Written by `./squash bench`; edit `bench/` instead. Every figure is from one run, in which all subjects took turns. **S** is the median of a bare `spawn('/bin/true')` from Node between the same turns: compare ratios to S, not milliseconds, with another machine.",
    '',
    ...machineLines(run),
    '',
    '## Budgets',
    '',
    ...budgetTable(run.scenarios),
    '',
    ...run.scenarios.flatMap(scenarioLines),
    ...(run.peerNotes.length === 0 ? [] : ['## Peers', '', ...run.peerNotes.map((note) => `- ${note}`), '']),
    ...(notes === '' ? [] : [notes.trim(), '']),
  ].join('\n');
}

function machineLines({ machine, quick, scenarios }: Run): string[] {
  const spawns = scenarios.flatMap(({ spawnMs }) => spawnMs);
  const seconds = scenarios.reduce((sum, scenario) => sum + scenario.seconds, 0);
  const lines = [
    `- Machine: ${machine.cores} × ${machine.cpu}, ${machine.memoryGb} GB, ${machine.system}, Linux ${machine.kernel}`,
    `- Run: ${machine.date}, commit ${machine.commit}, Node ${machine.node}, as ${machine.user}, cgroup ${machine.cgroups}, data on ${machine.fileSystem}, ${Math.round(seconds)} s${quick ? ', **quick: few samples**' : ''}`,
  ];
  if (spawns.length > 0) lines.push(`- S over the whole run: ${summaryText(spawns)}`);
  return lines;
}

function summaryText(samples: readonly number[]): string {
  const { min, median, p95 } = summarise(samples);
  return `min ${figure(min)} ms, median ${figure(median)} ms, p95 ${figure(p95)} ms`;
}

function budgetTable(scenarios: readonly ScenarioResult[]): string[] {
  const rows = budgets.map((budget) => {
    const verdict = judge(budget, scenarios);
    return [budget.what, `≤ ${inUnit(verdict, budget.limit)}`, measured(verdict), outcome(verdict)];
  });
  return table(['what', 'budget', 'measured', ''], rows);
}

function inUnit({ budget }: Verdict, value: number): string {
  if (typeof budget.per === 'string') return `${figure(value)} ${budget.per}`;
  return `${figure(value)} ×`;
}

function measured(verdict: Verdict): string {
  return verdict.value === undefined ? '' : inUnit(verdict, verdict.value);
}

export function outcome({ budget, value }: Verdict): 'not measured' | 'pass' | 'FAIL' {
  if (value === undefined) return 'not measured';
  return value <= budget.limit ? 'pass' : 'FAIL';
}

function scenarioLines(scenario: ScenarioResult): string[] {
  return [
    `## ${scenario.title}`,
    '',
    scenario.about,
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
