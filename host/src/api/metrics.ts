/** What engine, HTTP layer, egress process and the daemon's own process count, in Prometheus' text format. */
import type { Metric } from '@squash/base/metric';
import type { Engine } from '../engine/engine.ts';
import type { HttpCounters } from '../http/counters.ts';
import { egressMetrics, type EgressStatistics } from './egress-metrics.ts';

/** What counts beside the engine. */
export interface MetricSources {
  readonly counters: HttpCounters;
  readonly egress: EgressStatistics;
  readonly audit: { metrics(): readonly Metric[] };
}

export async function metricsText(
  engine: Engine,
  { counters, egress, audit }: MetricSources,
): Promise<string> {
  const [sandboxes, network] = await Promise.all([engine.metrics(), egressMetrics(egress)]);
  const all = [...sandboxes, ...network, ...counters.metrics(), ...audit.metrics(), ...processMetrics()];
  return all.map(metricText).join('');
}

function processMetrics(): readonly Metric[] {
  const { user, system } = process.cpuUsage();
  const single = (value: number): Metric['samples'] => [{ labels: {}, value }];
  return [
    {
      name: 'process_resident_memory_bytes',
      help: 'Memory of the daemon',
      type: 'gauge',
      samples: single(process.memoryUsage.rss()),
    },
    {
      name: 'process_cpu_seconds_total',
      help: 'Processor time of the daemon',
      type: 'counter',
      samples: single((user + system) / 1e6),
    },
    {
      name: 'process_uptime_seconds',
      help: 'Time since the daemon started',
      type: 'gauge',
      samples: single(process.uptime()),
    },
  ];
}

export function metricText(metric: Metric): string {
  const lines = metric.samples.map(({ labels, value }) => {
    const pairs = Object.entries(labels).map(([name, text]) => `${name}="${escapeLabel(text)}"`);
    return `${metric.name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}\n`;
  });
  const help = metric.help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  return `# HELP ${metric.name} ${help}\n# TYPE ${metric.name} ${metric.type}\n${lines.join('')}`;
}

function escapeLabel(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
