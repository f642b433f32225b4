/**
 * Which paths the programs of a sandbox were refused, where it was asked to trace them.
 *
 * PID 1 has the list, and ends with the sandbox: what it has is taken when somebody asks, and before a stop.
 * What a program was refused may have been written there by the program: it is shown, and decides nothing.
 */
import type { Clock } from '@squash/base/clock';
import { guestLimits } from '@squash/contract/guest/frames';
import type { Guest, RefusedPath } from '../guest/guest.ts';
import type { Sandbox } from './sandbox.ts';

/** PID 1 that does not answer keeps nobody from stopping it. */
const takeMsMax = 1_000;

export interface KeptPath extends RefusedPath {
  /** Of this sandbox, from 1; rises. */
  readonly id: number;
}

const traces = new WeakMap<Sandbox, PathTrace>();

/** Undefined where nobody asked for one. */
export function pathTraceOf(sandbox: Sandbox): PathTrace | undefined {
  if (sandbox.row.hostRoot?.root.trace_paths !== true) return undefined;
  const trace = traces.get(sandbox) ?? new PathTrace(sandbox.clock);
  traces.set(sandbox, trace);
  return trace;
}

/** Takes over what PID 1 has noted, while it is there to be asked. */
export async function takePaths(sandbox: Sandbox): Promise<void> {
  const { state, isFrozen, row, world } = sandbox;
  const pathTrace = pathTraceOf(sandbox);
  if (pathTrace === undefined || state.phase !== 'ready' || isFrozen) return;
  try {
    await pathTrace.take(sandbox.guest);
  } catch (error) {
    world.log.guest(row.id).warn('paths.lost', { error });
  }
}

export class PathTrace {
  readonly #clock: Clock;
  readonly #kept = new Map<string, KeptPath>();
  #bytes = 0;
  #isTruncated = false;
  /** As far as this PID 1 was heard. */
  #guest: Guest | undefined;
  #offset = 0;
  #taking: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Behind `after`, in the order in which they came. */
  behind(after: number): readonly KeptPath[] {
    return [...this.#kept.values()].slice(after);
  }

  get isTruncated(): boolean {
    return this.#isTruncated;
  }

  /** Resolves when all is here that PID 1 had when it was asked. @throws guest_failed and its like */
  async take(guest: Guest): Promise<void> {
    // One that is under way may have been answered before the last came.
    await this.#taking?.catch(() => undefined);
    this.#taking ??= this.#take(guest).finally(() => {
      this.#taking = undefined;
    });
    await this.#taking;
  }

  async #take(guest: Guest): Promise<void> {
    if (guest !== this.#guest) this.#offset = 0;
    this.#guest = guest;
    const signal = AbortSignal.timeout(takeMsMax);
    for (;;) {
      const { paths, next, isTruncated } = await guest.refusedPaths(this.#offset, signal);
      for (const path of paths) this.#keep(path);
      this.#isTruncated ||= isTruncated;
      this.#offset = next;
      if (paths.length === 0) return;
    }
  }

  #keep(refused: RefusedPath): void {
    const key = `${refused.intent} ${refused.path.toString('latin1')}`;
    if (this.#kept.has(key)) return;
    if (
      this.#kept.size === guestLimits.tracedPathsMax ||
      this.#bytes + refused.path.length > guestLimits.tracedBytesMax
    ) {
      this.#isTruncated = true;
      return;
    }
    this.#bytes += refused.path.length;
    const atMs = Math.min(refused.atMs, this.#clock.wallMs());
    this.#kept.set(key, { ...refused, atMs, id: this.#kept.size + 1 });
  }
}
