/**
 * What becomes of a connection that was undecided: it has passed, is read from its first byte after all, or is refused.
 */
import type { Socket } from 'node:net';
import type { Verdict } from '@squash/policy/policy';
import { byteTurns } from '../flow/byte-turns.ts';
import { DialRefused } from '../ports.ts';
import type { FirstBytes } from './first-bytes.ts';
import type { Plan } from './plan.ts';
import { serveUndecided } from './undecided.ts';

/** Brings the program's bytes to who serves them. */
export type Open = (serve: (socket: Socket) => Promise<void>) => void;
type ReadPlan = Extract<Plan, { kind: 'intercept' | 'refuse' }>;

export type UndecidedOutcome =
  | { readonly kind: 'passed' }
  /** It has to be read, and bytes have gone already. */
  | { readonly kind: 'late'; readonly plan: Plan }
  | { readonly kind: 'refused'; readonly verdict: Verdict }
  | { readonly kind: 'failed'; readonly code: string };

/** The connection, as far as it is needed here. */
export interface UndecidedHost {
  /** In whose turns its bytes pass. */
  readonly sandbox: string;
  readonly dial: (signal: AbortSignal) => Promise<Socket>;
  readonly planOf: (first: FirstBytes) => Plan;
  /** From now on it is judged as this. */
  readonly settle: (first: FirstBytes, plan: Plan) => void;
  /** Gives its place back. False: it is over. */
  readonly leave: () => boolean;
  /** Has it read or refused in words. False: it was ended instead. */
  readonly read: (plan: ReadPlan, open: Open) => boolean;
  /** A reset of its server's is one of the program's. */
  readonly cut: () => void;
  readonly end: (outcome: UndecidedOutcome) => void;
}

/** Resolves when both ends are closed. */
export async function carryUndecided(socket: Socket, host: UndecidedHost): Promise<void> {
  let plan: Plan | undefined;
  byteTurns.enter(host.sandbox);
  const end = await serveUndecided(socket, {
    sandbox: host.sandbox,
    dial: host.dial,
    cut: host.cut,
    decide: (first) => {
      plan = host.planOf(first);
      if (plan.kind !== 'tunnel') return 'take';
      host.settle(first, plan);
      return 'pass';
    },
  }).finally(() => byteTurns.leave(host.sandbox));
  if (end.kind === 'undialled') return host.end(failedDial(end.error));
  if (end.kind === 'ended' || plan === undefined) return host.end({ kind: 'passed' });
  if (end.kind === 'late' || (plan.kind !== 'intercept' && plan.kind !== 'refuse'))
    return host.end({ kind: 'late', plan });
  host.settle(end.first, plan);
  if (!host.leave()) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  if (host.read(plan, (serve) => void serve(socket).finally(resolve))) await promise;
}

/** What became of a connection whose server could not be dialled. */
export function failedDial(error: unknown): UndecidedOutcome {
  if (error instanceof DialRefused) return { kind: 'refused', verdict: error.verdict };
  return { kind: 'failed', code: String((error as NodeJS.ErrnoException).code ?? 'EIO') };
}
