/** Who asks, and what he may do: found out by the gate, looked at by the router. */
import type { Scope } from '@squash/contract/scope';

export interface Caller {
  /** Id of his key; null: the operator, by `SQUASH_AUTH_TOKEN`, the Unix socket or a connection of his own. */
  readonly key: string | null;
  /** Whose sandboxes he sees and makes; null: everybody's. */
  readonly owner: string | null;
  readonly scope: Scope;
}

export const operator: Caller = { key: null, owner: null, scope: 'admin' };

/** For operations that anybody may ask for. */
export const anybody: Caller = { key: null, owner: '', scope: 'read' };

/** Whether what this owner has is there for the caller. */
export function sees({ owner }: Caller, whose: string): boolean {
  return owner === null || owner === whose;
}
