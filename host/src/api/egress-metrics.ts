/** What the egress process counts, for `/metrics`. Where it does not answer, only that is told. */
import { AppError } from '@squash/contract/errors';
import type { EgressStats } from '@squash/contract/egress-protocol';
import type { Metric } from '@squash/base/metric';

export interface EgressStatistics {
  stats(): Promise<EgressStats>;
}

export async function egressMetrics(egress: EgressStatistics): Promise<readonly Metric[]> {
  let stats: EgressStats;
  try {
    stats = await egress.stats();
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'egress_unavailable') throw error;
    return [gauge('squash_egress_up', 'Whether the egress process answers', 0)];
  }
  const { connections, dns, decisions, memory } = stats;
  const { pending, tunnelled, intercepted } = connections;
  return [
    gauge('squash_egress_up', 'Whether the egress process answers', 1),
    gauge('squash_egress_relays', 'Relays of sandboxes that are connected', stats.relays),
    {
      name: 'squash_egress_connections',
      help: 'Open connections of sandboxes',
      type: 'gauge',
      samples: Object.entries({ pending, tunnelled, intercepted }).map(([state, value]) => ({
        labels: { state },
        value,
      })),
    },
    counter(
      'squash_egress_connections_total',
      'Connections since the egress process began',
      connections.total,
    ),
    counter('squash_egress_refused_total', 'Connections that were refused', connections.refused),
    {
      name: 'squash_egress_dns_total',
      help: 'DNS queries, by what became of them',
      type: 'counter',
      samples: Object.entries(dns).map(([kind, value]) => ({ labels: { kind }, value })),
    },
    gauge('squash_egress_decisions', 'Decisions that are kept', decisions.stored),
    counter('squash_egress_decisions_dropped_total', 'Decisions that were counted only', decisions.dropped),
    gauge('squash_egress_questions', 'Questions that wait for a person', stats.questions.open),
    counter('squash_egress_questions_total', 'Questions that were put to a person', stats.questions.asked),
    counter(
      'squash_egress_questions_refused_total',
      'Connections and requests that were denied by a person, timed out, or were too many to ask about',
      stats.questions.refused,
    ),
    gauge('squash_egress_resident_memory_bytes', 'Memory of the egress process', memory.rss_bytes),
  ];
}

function gauge(name: string, help: string, value: number): Metric {
  return { name, help, type: 'gauge', samples: [{ labels: {}, value }] };
}

function counter(name: string, help: string, value: number): Metric {
  return { ...gauge(name, help, value), type: 'counter' };
}
