/**
 * The engine's counters and gauges for `/metrics`. No labels that a client or a sandbox can choose: their number
 * would be without bound.
 */
import { type Problem, problemSchema } from '@squash/contract/daemon';
import type { Metric } from '@squash/base/metric';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { World } from '../sandbox/world.ts';

const states = ['creating', 'ready', 'restarting', 'failed', 'destroying'] as const;

export function engineMetrics(
  world: World,
  sandboxes: readonly Sandbox[],
  problems: readonly Problem[],
): readonly Metric[] {
  const { counters } = world;
  const inState = (state: string): number =>
    sandboxes.filter((sandbox) => sandbox.state.phase === state).length;
  const sum = (of: (sandbox: Sandbox) => number): number =>
    sandboxes.reduce((total, sandbox) => total + of(sandbox), 0);
  return [
    problemMetric(problems),
    {
      name: 'squash_sandboxes',
      help: 'Sandboxes by state',
      type: 'gauge',
      samples: states.map((state) => ({ labels: { state }, value: inState(state) })),
    },
    single(
      'squash_execs_running',
      ['gauge', 'Commands that run now'],
      sum((sandbox) => sandbox.runs.size),
    ),
    {
      name: 'squash_execs_total',
      help: 'Commands that ended since the daemon began, by how',
      type: 'counter',
      samples: Object.entries(counters.execs).map(([reason, value]) => ({ labels: { reason }, value })),
    },
    single(
      'squash_sandboxes_created_total',
      ['counter', 'Sandboxes created since the daemon began'],
      counters.created,
    ),
    single(
      'squash_sandboxes_destroyed_total',
      ['counter', 'Sandboxes removed since the daemon began'],
      counters.destroyed,
    ),
    single(
      'squash_sandboxes_reaped_total',
      ['counter', 'Sandboxes removed at the end of their lifetime'],
      counters.reaped,
    ),
    single(
      'squash_sandbox_restarts_total',
      ['counter', 'Starts of a sandbox whose PID 1 had ended'],
      counters.restarts,
    ),
    single(
      'squash_snapshots_total',
      ['counter', 'Snapshots taken since the daemon began'],
      counters.snapshots,
    ),
    single(
      'squash_upper_bytes',
      ['gauge', 'Bytes in all writable layers, as last measured'],
      sum((sandbox) => sandbox.usage.known.bytes),
    ),
    single(
      'squash_upper_inodes',
      ['gauge', 'Inodes in all writable layers, as last measured'],
      sum((sandbox) => sandbox.usage.known.inodes),
    ),
  ];
}

function problemMetric(problems: readonly Problem[]): Metric {
  const samples = problemSchema.shape.code.options.map((code) => ({
    labels: { code },
    value: problems.some((problem) => problem.code === code) ? 1 : 0,
  }));
  const help = 'Whether something does not work as it should for all sandboxes';
  return { name: 'squash_problem', help, type: 'gauge', samples };
}

function single(name: string, [type, help]: readonly [Metric['type'], string], value: number): Metric {
  return { name, help, type, samples: [{ labels: {}, value }] };
}
