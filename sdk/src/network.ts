/** What a sandbox may reach, and what it tried. */
import type { Connection, Signal } from './connection.ts';
import { dataOf, follow } from './follow.ts';
import type {
  EgressDecision,
  EgressDecisions,
  Operations,
  PolicyChange,
  PolicyLearnAnswer,
  PolicyTest,
  PolicyTestAnswer,
  SandboxPolicy,
} from './records.gen.ts';

export type DecisionFilter = Omit<Operations['egress.decisions']['query'], 'follow'> & Signal;

export class Network {
  readonly #connection: Connection;
  readonly #path: { readonly id: string };

  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection;
    this.#path = { id: sandbox };
  }

  /** `policy.get` */
  async policy(options: Signal = {}): Promise<SandboxPolicy> {
    return await this.#connection.call('policy.get', { path: this.#path, ...options });
  }

  /** `policy.set`: replaces it, for what is connected already as well. */
  async setPolicy({ signal, ...body }: PolicyChange & Signal): Promise<SandboxPolicy> {
    return await this.#connection.call('policy.set', { path: this.#path, body, signal });
  }

  /** `policy.test`: what would be decided of `host:port` or a URL, and by which rule. */
  async test(
    to: string,
    { signal, ...options }: Omit<PolicyTest, 'to'> & Signal = {},
  ): Promise<PolicyTestAnswer> {
    const body = { ...options, to };
    return await this.#connection.call('policy.test', { path: this.#path, body, signal });
  }

  /** `policy.learn`: the policy that would allow what it has tried. */
  async learn(options: Signal = {}): Promise<PolicyLearnAnswer> {
    return await this.#connection.call('policy.learn', { path: this.#path, ...options });
  }

  /** `egress.decisions`: the newest, oldest first. */
  async decisions({ signal, ...query }: DecisionFilter = {}): Promise<EgressDecisions> {
    return await this.#connection.call('egress.decisions', { path: this.#path, query, signal });
  }

  /** `egress.decisions`: each as it comes, and none twice or lost where the connection breaks. Without end. */
  async *followDecisions({
    signal,
    ...query
  }: DecisionFilter = {}): AsyncGenerator<EgressDecision, void, void> {
    const options = { path: this.#path, query: { ...query, follow: true }, signal, isLast: () => false };
    for await (const event of follow(this.#connection, 'egress.decisions', options))
      if (event.name === 'decision') yield dataOf(event) as EgressDecision;
  }
}
