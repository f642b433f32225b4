/** Questions of sandboxes for more network, which a person answers. */
import { type Connection, type Signal } from './connection.ts';
import { everyItem } from './pages.ts';
import type { Approval, ApprovalDecision, Operations, StandingApproval } from './records.gen.ts';

export type ApprovalFilter = Operations['approval.list']['query'] & Signal;

export class Approvals {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** What is allowed for longer. */
  get standing(): StandingApprovals {
    return new StandingApprovals(this.#connection);
  }

  /** `approval.list` */
  list({ signal, ...query }: ApprovalFilter = {}): AsyncGenerator<Approval, void, void> {
    return everyItem(this.#connection, 'approval.list', { query, signal });
  }

  /** `approval.get` @throws NotFound */
  async get(approval: string, options: Signal = {}): Promise<Approval> {
    return await this.#connection.call('approval.get', { path: { approval }, ...options });
  }

  /** `approval.decide` @throws Conflict where nobody waits any more, or it was decided otherwise */
  async decide(approval: string, { signal, ...body }: ApprovalDecision & Signal): Promise<Approval> {
    return await this.#connection.call('approval.decide', { path: { approval }, body, signal });
  }
}

export class StandingApprovals {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `approval.standing_list` */
  async list(options: Signal = {}): Promise<readonly StandingApproval[]> {
    return await this.#connection.call('approval.standing_list', options);
  }

  /** `approval.standing_remove` */
  async remove(standing: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('approval.standing_remove', { path: { standing }, ...options });
  }
}
