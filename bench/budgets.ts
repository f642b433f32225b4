/**
 * The budgets of the design as data: each names the metric it is judged by. They are judged here and printed,
 * never asserted in a test: a busy machine must not turn a build red.
 */
import { summarise } from './measure/stats.ts';
import type { ScenarioResult } from './measure/scenario.ts';
import type { ScenarioId } from './options.ts';
import { boxBound } from './scenarios/box.ts';

export interface Budget {
  readonly what: string;
  readonly scenario: ScenarioId;
  readonly metric: string;
  readonly subject: string;
  readonly statistic: 'median' | 'p95';
  readonly limit: number;
  /**
   * S: of a bare spawn in the same scenario; hot S: each sample of the bare spawns right before it, which the scenario
   * has divided already. Otherwise of another subject's median, or absolute.
   */
  readonly per: 'S' | 'hot S' | 'ms' | 'MB' | '%' | { readonly subject: string };
}

export const budgets: readonly Budget[] = [
  {
    what: '`exec true` over HTTP, keep-alive, p50',
    scenario: 'exec',
    metric: 'exec',
    subject: 'Squash, HTTP keep-alive',
    statistic: 'median',
    limit: 1.5,
    per: 'S',
  },
  {
    what: '`exec true` over `/v1`, p50, against `/cgi-bin`',
    scenario: 'exec',
    metric: 'exec',
    subject: 'Squash, HTTP keep-alive, /v1',
    statistic: 'median',
    limit: 1,
    per: { subject: 'Squash, HTTP keep-alive' },
  },
  {
    what: 'first byte of a process of `/v1`, p50, against its exec',
    scenario: 'exec',
    metric: 'exec',
    subject: 'Squash, /v1, first byte of a stream',
    statistic: 'median',
    limit: 1.2,
    per: { subject: 'Squash, HTTP keep-alive, /v1' },
  },
  {
    what: 'exec through the TypeScript SDK, p50, against Node’s own HTTP client',
    scenario: 'exec',
    metric: 'exec',
    subject: 'Squash, /v1, TypeScript SDK',
    statistic: 'median',
    limit: 1.25,
    per: { subject: 'Squash, HTTP keep-alive, /v1' },
  },
  {
    what: 'exec through the Python SDK, p50, against Python’s http.client',
    scenario: 'exec',
    metric: 'exec',
    subject: 'Squash, /v1, Python SDK',
    statistic: 'median',
    limit: 1.25,
    per: { subject: 'Squash, /v1, Python’s http.client (the floor)' },
  },
  ...['HTTP keep-alive', 'TypeScript SDK', 'Python SDK'].map(
    (way): Budget => ({
      what: `a cell by ${way}, p50, against jupyter_client inside and two execs`,
      scenario: 'cells',
      metric: 'cell',
      subject: `Squash, ${way}`,
      statistic: 'median',
      limit: 1,
      per: { subject: 'jupyter_client inside, and two execs' },
    }),
  ),
  ...(
    [
      ['Squash', '`squash box run true`', 1],
      ['Squash, large', '`squash box run true`, large home and repository', 1],
      ['Squash, no daemon', '`squash box run true`, no daemon', 3],
    ] as const
  ).map(
    ([subject, what, limit]): Budget => ({
      what: `${what}, p50, against ${boxBound}`,
      scenario: 'box',
      metric: 'call',
      subject,
      statistic: 'median',
      limit,
      per: { subject: boxBound },
    }),
  ),
  {
    what: 'create (two layers), p50',
    scenario: 'create',
    metric: 'create',
    subject: 'Squash',
    statistic: 'median',
    limit: 6,
    per: 'S',
  },
  {
    what: 'create → first output, p50',
    scenario: 'create',
    metric: 'first',
    subject: 'Squash',
    statistic: 'median',
    limit: 7,
    per: 'S',
  },
  ...(
    [
      ['createRatio', 'create, everything hot, p50', 4],
      ['firstRatio', 'create → first output, everything hot, p50', 5.5],
      ['destroyRatio', 'destroy, everything hot, p50', 2],
    ] as const
  ).map(
    ([metric, what, limit]): Budget => ({
      what,
      scenario: 'create',
      metric,
      subject: 'Squash, everything hot',
      statistic: 'median',
      limit,
      per: 'hot S',
    }),
  ),
  ...(
    [
      ['create', 'create with a network policy, p50', 7],
      ['first', 'create with a network policy → first output, p50', 8],
    ] as const
  ).map(
    ([metric, what, limit]): Budget => ({
      what,
      scenario: 'create',
      metric,
      subject: 'Squash, with a network policy',
      statistic: 'median',
      limit,
      per: 'S',
    }),
  ),
  ...(
    [
      ['100 creates at once, p95 of create → first output', 'first', 'p95', 300],
      ['the ninety-fifth of 100 creates at once, p50 of the bursts: the goal', 'ninety_fifth', 'median', 220],
    ] as const
  ).map(
    ([what, metric, statistic, limit]): Budget => ({
      what,
      scenario: 'burst',
      metric,
      subject: 'Squash',
      statistic,
      limit,
      per: 'S',
    }),
  ),
  {
    what: 'idle sandbox among 100, all its processes (PSS)',
    scenario: 'memory',
    metric: 'pss',
    subject: 'Squash, 100 sandboxes',
    statistic: 'median',
    limit: 0.5,
    per: 'MB',
  },
  {
    what: 'snapshot of a 10 MB upper, against mksquashfs alone',
    scenario: 'snapshot-10',
    metric: 'snapshot',
    subject: 'Squash',
    statistic: 'median',
    limit: 1.3,
    per: { subject: 'mksquashfs / unsquashfs and one syncfs' },
  },
  ...([10, 100, 500] as const).map(
    (megabytes): Budget => ({
      what: `restore of a ${megabytes} MB snapshot, less a start of PID 1, against unsquashfs and one syncfs`,
      scenario: `snapshot-${megabytes}`,
      metric: 'unpack',
      subject: 'Squash',
      statistic: 'median',
      limit: 1.3,
      per: { subject: 'mksquashfs / unsquashfs and one syncfs' },
    }),
  ),
  {
    what: 'daemon at rest with 100 idle sandboxes, resident',
    scenario: 'memory',
    metric: 'rss',
    subject: 'Squash, 100 sandboxes',
    statistic: 'median',
    limit: 120,
    per: 'MB',
  },
  {
    // "No measurable CPU": less than the clock tick that /proc counts in, once in two seconds.
    what: 'daemon at rest with 100 idle sandboxes, processor',
    scenario: 'memory',
    metric: 'cpu',
    subject: 'Squash, 100 sandboxes',
    statistic: 'median',
    limit: 0.5,
    per: '%',
  },
  {
    what: 'codemode, quickjs, warm run against the bare engine behind a pipe, p50',
    scenario: 'codemode',
    metric: 'warm',
    subject: 'quickjs',
    statistic: 'median',
    limit: 2,
    per: { subject: 'bare quickjs' },
  },
  {
    what: 'codemode, isolated-vm, warm run against the bare engine behind a pipe, p50',
    scenario: 'codemode',
    metric: 'warm',
    subject: 'isolated-vm',
    statistic: 'median',
    limit: 2,
    per: { subject: 'bare isolated-vm' },
  },
  {
    // The one time that is not a ratio: a tenth of a second is what a person notices.
    what: 'codemode, quickjs as published, cold, p50',
    scenario: 'codemode-cold',
    metric: 'cold',
    subject: 'quickjs, as published',
    statistic: 'median',
    limit: 100,
    per: 'ms',
  },
  {
    what: 'tunnelled: time for the same bytes, against direct',
    scenario: 'tunnel',
    metric: 'transfer',
    subject: 'Squash',
    statistic: 'median',
    limit: 2,
    per: { subject: 'direct' },
  },
  {
    // The same: HTTP is read and written, and the bytes come the same way. What ends TLS alone stands beside it.
    what: 'intercepted: time for the same bytes, against the same proxying without rules',
    scenario: 'intercept',
    metric: 'download',
    subject: 'Squash, read',
    statistic: 'median',
    limit: 1.25,
    per: { subject: 'plain HTTPS proxy, tunnelled' },
  },
  {
    what: 'a new tunnelled connection, its first byte included',
    scenario: 'tunnel',
    metric: 'connect',
    subject: 'Squash',
    statistic: 'median',
    limit: 3,
    per: 'S',
  },
  {
    what: 'a request on a reused intercepted connection',
    scenario: 'intercept',
    metric: 'reused',
    subject: 'Squash, read',
    statistic: 'median',
    limit: 1,
    per: 'S',
  },
  {
    // 1,000 connections of 64 KiB.
    what: 'memory of 1,000 open connections',
    scenario: 'tunnel',
    metric: 'memory',
    subject: 'Squash',
    statistic: 'median',
    limit: 64,
    per: 'MB',
  },
  ...['names', 'connections', 'bytes'].map(
    (what): Budget => ({
      what: `exec beside a flood of ${what}, p95, against the same without`,
      scenario: 'flood',
      metric: 'exec',
      subject: `beside a flood of ${what}`,
      statistic: 'p95',
      limit: 2,
      per: { subject: 'alone' },
    }),
  ),
  {
    what: 'microVM, create → first output, p50, against QEMU with the same kernel and command line alone',
    scenario: 'vm',
    metric: 'boot',
    subject: 'Squash, microVM',
    statistic: 'median',
    limit: 1.2,
    per: { subject: 'QEMU alone' },
  },
  {
    what: 'microVM from a template, create → first output, p50, against one that boots',
    scenario: 'vm',
    metric: 'boot',
    subject: 'Squash, microVM from a template',
    statistic: 'median',
    limit: 0.25,
    per: { subject: 'Squash, microVM' },
  },
  {
    what: 'microVM, `exec true` of its PID 1 over vsock, p50, against a byte over vsock and back and a fork and exec in that guest',
    scenario: 'vm',
    metric: 'exec',
    subject: 'its PID 1, without the API',
    statistic: 'median',
    limit: 1.5,
    per: { subject: 'vsock echo, and fork and exec, in the guest' },
  },
  {
    what: 'microVM, `exec true` over HTTP, p50, against a byte over vsock and back and a fork and exec in that guest',
    scenario: 'vm',
    metric: 'exec',
    subject: 'Squash, microVM',
    statistic: 'median',
    limit: 1.5,
    per: { subject: 'vsock echo, and fork and exec, in the guest' },
  },
];

export interface Verdict {
  readonly budget: Budget;
  /** In the budget's unit; undefined where it was not measured in this run. */
  readonly value: number | undefined;
}

export function judge(budget: Budget, scenarios: readonly ScenarioResult[]): Verdict {
  const scenario = scenarios.find(({ id }) => id === budget.scenario);
  const samples = samplesOf(scenario, budget.subject, budget.metric);
  if (scenario === undefined || samples === undefined) return { budget, value: undefined };
  const value = summarise(samples)[budget.statistic];
  if (budget.per === 'S') return { budget, value: value / summarise(scenario.spawnMs).median };
  if (typeof budget.per === 'string') return { budget, value };
  const against = samplesOf(scenario, budget.per.subject, budget.metric);
  return {
    budget,
    value: against === undefined ? undefined : value / summarise(against)[budget.statistic],
  };
}

function samplesOf(
  scenario: ScenarioResult | undefined,
  subject: string,
  metric: string,
): readonly number[] | undefined {
  return scenario?.results.find((result) => result.subject === subject && result.metric === metric)?.samples;
}
