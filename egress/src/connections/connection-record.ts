/** What the decision log gets of one connection: what it was refused for, or a row that is completed when it ends. */
import type { DecisionLog, OpenDecision } from '../decisions/decision-log.ts';
import type { Figures } from '../decisions/decision-rows.ts';
import type { Destination } from '@squash/policy/policy';
import type { Decision, DecisionVerdict } from '../ports.ts';
import type { ConnectionServices } from './connection-services.ts';
import type { Reached } from './reached.ts';

export class ConnectionRecord {
  readonly #decisions: DecisionLog;
  readonly #sandbox: string;
  readonly #of: { readonly destination: Destination; readonly reached: Reached };
  readonly #monoMs: () => number;
  readonly #openedMs: number;
  #row: OpenDecision | undefined;
  /** Once it has ended. */
  #figures: Figures | undefined;

  constructor(
    { decisions, monoMs }: Pick<ConnectionServices, 'decisions' | 'monoMs'>,
    sandbox: string,
    of: { readonly destination: Destination; readonly reached: Reached },
  ) {
    this.#decisions = decisions;
    this.#sandbox = sandbox;
    this.#of = of;
    this.#monoMs = monoMs;
    this.#openedMs = monoMs();
  }

  open(rule: string): void {
    this.#row = this.#decisions.open(this.#sandbox, this.#decision('allowed', rule));
    if (this.#figures !== undefined) this.#row.end(this.#figures);
  }

  end({ bytesUp, bytesDown }: Omit<Figures, 'durationMs'>): void {
    const durationMs = Math.round((this.#monoMs() - this.#openedMs) * 10) / 10;
    this.#figures = { bytesUp, bytesDown, durationMs };
    this.#row?.end(this.#figures);
  }

  add(verdict: DecisionVerdict, rule: string): void {
    this.#decisions.record(this.#sandbox, this.#decision(verdict, rule));
  }

  #decision(verdict: DecisionVerdict, rule: string): Decision {
    const { destination, reached } = this.#of;
    const { host, address = reached.last, port } = destination;
    return { kind: 'connection', host, address, port, verdict, rule };
  }
}
