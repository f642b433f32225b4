/** Who asks, and what he may do: found out by the gate, looked at by the router. */
import { AppError } from '@squash/contract/errors';
import type { HeldKey } from '@squash/contract/keys';
import { ownerByDefault } from '@squash/contract/sandbox';
import type { Scope } from '@squash/contract/scope';

export interface Caller {
  /** Id of his key; null: the operator, by `SQUASH_AUTH_TOKEN`, the Unix socket or a connection of his own. */
  readonly key: string | null;
  /** Whose sandboxes he sees and makes; null: everybody's. */
  readonly owner: string | null;
  readonly scope: Scope;
  /** The key itself. Its owner is who has what he makes, also where an admin's key sees everybody's. */
  readonly held: HeldKey | null;
}

export const operator: Caller = { key: null, owner: null, scope: 'admin', held: null };

/** For operations that anybody may ask for. */
export const anybody: Caller = { key: null, owner: '', scope: 'read', held: null };

export function callerWith(held: HeldKey): Caller {
  const { id, owner, scope } = held;
  return { key: id, owner: scope === 'admin' ? null : owner, scope, held };
}

/** Whether what this owner has is there for the caller. */
export function sees({ owner }: Caller, whose: string): boolean {
  return owner === null || owner === whose;
}

/** Who shall have what the caller makes. @param named in the request @throws forbidden */
export function ownerFor(caller: Caller, named: string | undefined): string {
  const owner = named ?? caller.held?.owner ?? ownerByDefault;
  if (sees(caller, owner)) return owner;
  throw new AppError(
    'forbidden',
    'The key makes things for its own owner only: leave "owner" out, or name that one',
  );
}

/** What is another owner's is not there; the audit alone knows better. */
export class NotSeen extends AppError {}
