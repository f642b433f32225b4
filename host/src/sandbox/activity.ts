/**
 * When a sandbox was used last, and so when its time is over. Pure but for the clock: who looks is the reaper.
 *
 * Used means: something of the API was asked of it, a command that somebody waits for runs, output came, bytes went through
 * a file or a port, or its processes worked. The last can't be seen when it happens: half-way through its idle time the
 * processor time it has used is noted, and compared at the end.
 */
import type { Clock } from '@squash/base/clock';
import { limits } from '@squash/contract/limits';
import type { SandboxRow } from '#store/rows.ts';

type Times = Pick<SandboxRow, 'lifetimeFromMs' | 'maxLifetimeS' | 'idleTimeoutS' | 'onTimeout'>;

interface Sample {
  readonly cpuUs: number;
  readonly atMs: number;
}

/** What is to be done about a sandbox's time now. */
export type TimeOut = 'nothing' | 'sample' | 'lifetime' | 'idle';

/** Of a processor: what a process takes that waits and looks about now and then. */
const idleShare = 0.02;

export class Activity {
  readonly #clock: Clock;
  #usedMs: number;
  #livesFromMs: number;
  #resumedMs = Number.NEGATIVE_INFINITY;
  #sample: Sample | undefined;

  constructor(clock: Clock, row: Pick<SandboxRow, 'lifetimeFromMs'>) {
    this.#clock = clock;
    this.#usedMs = clock.monoMs();
    this.#livesFromMs = this.#monotonic(row.lifetimeFromMs);
  }

  touch(): void {
    this.#usedMs = this.#clock.monoMs();
    this.#sample = undefined;
  }

  /** Monotonic; this daemon's beginning where nobody has used it since. */
  get usedMs(): number {
    return this.#usedMs;
  }

  /** Its lifetime counts from now on. A wall clock that is set later changes nothing. */
  renew(): void {
    this.#livesFromMs = this.#clock.monoMs();
  }

  resumed(): void {
    this.#resumedMs = this.#clock.monoMs();
    this.touch();
  }

  /** Monotonic. */
  get resumedMs(): number {
    return this.#resumedMs;
  }

  /** What PID 1 should have said while it stood still it says now. */
  get hasJustResumed(): boolean {
    return this.#clock.monoMs() - this.#resumedMs < limits.execTimeoutSlackMs;
  }

  /** @param cpuUs of all its processes, since its start */
  sampled(cpuUs: number): void {
    this.#sample = { cpuUs, atMs: this.#clock.monoMs() };
  }

  /** Whether it worked since the last sample. @param cpuUs now */
  hasWorked(cpuUs: number): boolean {
    if (this.#sample === undefined) return false;
    const { cpuUs: before, atMs } = this.#sample;
    const elapsedUs = (this.#clock.monoMs() - atMs) * 1_000;
    return cpuUs - before > elapsedUs * idleShare;
  }

  lifetimeLeftMs({ maxLifetimeS }: Times): number | undefined {
    return maxLifetimeS === 0 ? undefined : this.#livesFromMs + maxLifetimeS * 1_000 - this.#clock.monoMs();
  }

  /** What its time asks for, now or next. @param isBusy somebody waits for a command in it */
  next(row: Times, isBusy: boolean): { readonly what: TimeOut; readonly inMs: number } {
    const lifetime = this.lifetimeLeftMs(row) ?? Number.POSITIVE_INFINITY;
    if (isBusy) this.touch();
    const idleMs = row.idleTimeoutS * 1_000;
    const sinceMs = this.#clock.monoMs() - this.#usedMs;
    const idle =
      idleMs === 0
        ? Number.POSITIVE_INFINITY
        : this.#sample === undefined
          ? idleMs / 2 - sinceMs
          : Math.max(idleMs - sinceMs, idleMs / 2 - (this.#clock.monoMs() - this.#sample.atMs));
    if (lifetime <= idle) {
      return { what: lifetime === Number.POSITIVE_INFINITY ? 'nothing' : 'lifetime', inMs: lifetime };
    }
    return { what: this.#sample === undefined ? 'sample' : 'idle', inMs: idle };
  }

  /** A moment of the wall clock on the monotonic one. */
  #monotonic(wallMs: number): number {
    return this.#clock.monoMs() - Math.max(0, this.#clock.wallMs() - wallMs);
  }
}
