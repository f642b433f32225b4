/** `metrics`: what engine, HTTP layer and process count, in Prometheus' text format. */
import type { metrics } from '@squash/contract/operations/daemon';
import type { HttpCounters, Metric } from '../http/counters.ts';
import type { Handler } from '../http/router.ts';
import type { Engine } from '../sandbox/engine.ts';
import { egressMetrics, type EgressStatistics } from './egress-metrics.ts';

const contentType = 'text/plain; version=0.0.4; charset=utf-8';

export function metricsHandler(
  engine: Engine,
  counters: HttpCounters,
  egress: EgressStatistics,
): Handler<typeof metrics> {
  return async () => {
    const [sandboxes, network] = await Promise.all([engine.metrics(), egressMetrics(egress)]);
    const all = [...sandboxes, ...network, ...counters.metrics(), ...processMetrics()];
    return { type: 'text', contentType, text: all.map(metricText).join('') };
  };
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
