/** Counts of what the HTTP layer did, for `/metrics`: bounded, because the labels are operations and statuses. */
import { limits } from '@squash/contract/limits';
import type { Metric } from '@squash/base/metric';
import { Places } from './places.ts';

export class HttpCounters {
  readonly #requests = new Map<string, { operation: string; status: number; count: number; ms: number }>();
  /** Requests and WebSockets in progress. */
  active = 0;
  /** The same so far. */
  begun = 0;
  /** Event streams and WebSockets. */
  readonly streams = new Places('streams are open', limits.streamsMax);
  /** Files on their way, which have bounds of their own. */
  transfers = 0;
  /** Closed or refused because too many had sent no request. */
  refusedConnections = 0;

  record(operation: string, status: number, ms: number): void {
    const key = `${operation} ${status}`;
    const row = this.#requests.get(key) ?? { operation, status, count: 0, ms: 0 };
    row.count += 1;
    row.ms += ms;
    this.#requests.set(key, row);
  }

  metrics(): readonly Metric[] {
    const rows = [...this.#requests.values()];
    const label = (row: { operation: string; status: number }) => ({
      operation: row.operation,
      status: String(row.status),
    });
    return [
      {
        name: 'squash_http_requests_total',
        help: 'Requests answered, by operation and status',
        type: 'counter',
        samples: rows.map((row) => ({ labels: label(row), value: row.count })),
      },
      {
        name: 'squash_http_request_seconds_total',
        help: 'Time from request to answer, summed',
        type: 'counter',
        samples: rows.map((row) => ({ labels: label(row), value: row.ms / 1000 })),
      },
      {
        name: 'squash_http_requests_active',
        help: 'Requests and WebSockets in progress',
        type: 'gauge',
        samples: [{ labels: {}, value: this.active }],
      },
      {
        name: 'squash_http_streams_active',
        help: 'Event streams and WebSockets open',
        type: 'gauge',
        samples: [{ labels: {}, value: this.streams.taken + this.transfers }],
      },
      {
        name: 'squash_http_connections_refused_total',
        help: 'Connections closed or refused because too many had sent no request',
        type: 'counter',
        samples: [{ labels: {}, value: this.refusedConnections }],
      },
    ];
  }
}
