/** What the decision log gets of one connection: what it was refused for, or a row that is completed when it ends. */
import type { DecisionLog, OpenDecision } from '../decisions/decision-log.ts';
import type { Figures } from '../decisions/decision-rows.ts';
import type { Destination } from '@squash/policy/policy';
import type { Decision, DecisionVerdict } from '../ports.ts';
import type { Reached } from './reached.ts';

export class ConnectionRecord {
  readonly #decisions: DecisionLog;
  readonly #sandbox: string;
  readonly #of: { readonly destination: Destination; readonly reached: Reached };
  #row: OpenDecision | undefined;
  /** Once it has ended. */
  #figures: Figures | undefined;

  constructor(
    decisions: DecisionLog,
    sandbox: string,
    of: { readonly destination: Destination; readonly reached: Reached },
  ) {
    this.#decisions = decisions;
    this.#sandbox = sandbox;
    this.#of = of;
  }

  open(rule: string): void {
    this.#row = this.#decisions.open(this.#sandbox, this.#decision('allowed', rule));
    if (this.#figures !== undefined) this.#row.end(this.#figures);
  }

  end(figures: Figures): void {
    this.#figures = figures;
    this.#row?.end(figures);
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
