/**
 * The life of one sandbox as a pure function: the only place where its state changes. No I/O, no clock.
 *
 * `ready` means PID 1 of this instance runs. Between two instances the state is `restarting`, and the reason
 * says what the commands of the old one are told. A sandbox whose PID 1 keeps dying becomes `failed` instead of
 * using the machine up; activate, restore and the next daemon try it again.
 */
import type { ErrorCode } from '@squash/contract/errors';
import type { EndReason } from '#store/rows.ts';

export type State =
  | { readonly phase: 'creating' }
  | { readonly phase: 'ready'; readonly instance: number }
  /** It stands still; its processes are there. `wakes`: the first use ends that. */
  | { readonly phase: 'paused'; readonly instance: number; readonly wakes: boolean }
  /** It was put to rest and has no processes. */
  | { readonly phase: 'stopped'; readonly wakes: boolean }
  | { readonly phase: 'restarting' }
  | { readonly phase: 'failed'; readonly message: string }
  | { readonly phase: 'destroying' };

export interface Life {
  readonly state: State;
  /** When PID 1 died by itself, within the window. Monotonic milliseconds. */
  readonly deathsMs: readonly number[];
}

export type LifeEvent =
  | { readonly type: 'started'; readonly instance: number }
  /** An operation is about to end PID 1 and start another. */
  | { readonly type: 'replacing'; readonly reason: EndReason }
  | { readonly type: 'paused'; readonly wakes: boolean }
  | { readonly type: 'resumed' }
  /** Nothing of it runs, and nothing is to. */
  | { readonly type: 'stopped'; readonly wakes: boolean }
  | { readonly type: 'start-failed'; readonly message: string }
  /** PID 1 of this instance ended and nobody of us did it. */
  | { readonly type: 'died'; readonly instance: number; readonly nowMs: number }
  | { readonly type: 'destroying' };

export type LifeEffect =
  /** Commands of the instance that is gone end with this reason. */
  | { readonly do: 'end-runs'; readonly reason: EndReason }
  | { readonly do: 'restart'; readonly afterMs: number }
  /** Whoever waits for the sandbox is told how it stands. */
  | { readonly do: 'tell-waiters' };

export interface RestartLimits {
  readonly restartsMax: number;
  readonly restartWindowMs: number;
  readonly restartDelayMs: number;
}

export interface Decision {
  readonly life: Life;
  readonly effects: readonly LifeEffect[];
}

export function decide(life: Life, event: LifeEvent, limits: RestartLimits): Decision {
  if (life.state.phase === 'destroying') return { life, effects: [] };
  switch (event.type) {
    case 'started':
      return {
        life: { ...life, state: { phase: 'ready', instance: event.instance } },
        effects: [{ do: 'tell-waiters' }],
      };
    case 'replacing':
      return {
        life: { ...life, state: { phase: 'restarting' } },
        effects: [{ do: 'end-runs', reason: event.reason }],
      };
    case 'paused':
    case 'resumed':
    case 'stopped':
      return { life: { ...life, state: restOf(life.state, event) }, effects: [{ do: 'tell-waiters' }] };
    case 'start-failed':
      return {
        life: { ...life, state: { phase: 'failed', message: event.message } },
        effects: [{ do: 'tell-waiters' }],
      };
    case 'died':
      return died(life, event, limits);
    case 'destroying':
      return {
        life: { ...life, state: { phase: 'destroying' } },
        effects: [{ do: 'end-runs', reason: 'destroyed' }, { do: 'tell-waiters' }],
      };
  }
}

/** Only what runs can be paused, and only what is paused goes on. */
function restOf(state: State, event: Extract<LifeEvent, { type: 'paused' | 'resumed' | 'stopped' }>): State {
  switch (event.type) {
    case 'paused':
      return state.phase === 'ready' || state.phase === 'paused'
        ? { phase: 'paused', instance: state.instance, wakes: event.wakes }
        : state;
    case 'resumed':
      return state.phase === 'paused' ? { phase: 'ready', instance: state.instance } : state;
    case 'stopped':
      return { phase: 'stopped', wakes: event.wakes };
  }
}

function died(
  life: Life,
  event: { readonly instance: number; readonly nowMs: number },
  limits: RestartLimits,
): Decision {
  const { state } = life;
  // Killed while it stood still, for want of memory perhaps: its files are there.
  if (state.phase === 'paused' && state.instance === event.instance) {
    return {
      life: { ...life, state: { phase: 'stopped', wakes: state.wakes } },
      effects: [{ do: 'end-runs', reason: 'killed' }, { do: 'tell-waiters' }],
    };
  }
  // The death of an instance that is not the present one is old news: an operation has replaced it.
  if (state.phase !== 'ready' || state.instance !== event.instance) return { life, effects: [] };
  const deathsMs = [...life.deathsMs.filter((at) => event.nowMs - at < limits.restartWindowMs), event.nowMs];
  const ended: LifeEffect = { do: 'end-runs', reason: 'killed' };
  if (deathsMs.length > limits.restartsMax) {
    const message = `its PID 1 ended ${deathsMs.length} times within ${limits.restartWindowMs / 1_000} s`;
    return {
      life: { deathsMs: [], state: { phase: 'failed', message } },
      effects: [ended, { do: 'tell-waiters' }],
    };
  }
  const afterMs = deathsMs.length === 1 ? 0 : limits.restartDelayMs * 2 ** (deathsMs.length - 2);
  return { life: { deathsMs, state: { phase: 'restarting' } }, effects: [ended, { do: 'restart', afterMs }] };
}

export type Admission =
  | { readonly verdict: 'go'; readonly instance: number }
  | { readonly verdict: 'wait' }
  /** It rests, and goes on for whoever uses it. */
  | { readonly verdict: 'wake' }
  | { readonly verdict: 'refuse'; readonly code: ErrorCode; readonly why: string };

/** May a command start now? */
export function admitCommand(state: State): Admission {
  switch (state.phase) {
    case 'ready':
      return { verdict: 'go', instance: state.instance };
    case 'creating':
    case 'restarting':
      return { verdict: 'wait' };
    case 'paused':
    case 'stopped':
      if (state.wakes) return { verdict: 'wake' };
      return { verdict: 'refuse', code: 'sandbox_paused', why: `it is ${state.phase}: resume it` };
    case 'failed':
      return {
        verdict: 'refuse',
        code: 'sandbox_not_ready',
        why: `${state.message}: restore a snapshot, activate a module, or remove it`,
      };
    case 'destroying':
      return { verdict: 'refuse', code: 'sandbox_not_found', why: 'it is being removed' };
  }
}
