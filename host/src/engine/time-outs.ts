/**
 * What is done when a sandbox's lifetime or idle time is over: it is destroyed, or put to rest until somebody uses it. A rest
 * that time brought ends with the first use; one that somebody asked for does not.
 */
import type { SandboxId } from '@squash/contract/ids';
import { snapshot } from '../sandbox/layering.ts';
import { hasWork } from '../sandbox/changes.ts';
import type { SandboxEvent } from '../sandbox/event-port.ts';
import { Reaper } from '../sandbox/reaper.ts';
import { pause, stopProcesses } from '../sandbox/rest.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { World } from '../sandbox/world.ts';
import type { Admission } from './admission.ts';
import type { Residents } from './residents.ts';
import { Unused } from './unused.ts';

/** Which of its times it was. */
export type Over = 'lifetime' | 'idle';

export interface TimeOutOptions {
  readonly world: World;
  readonly residents: Residents;
  readonly admission: Admission;
  /** Begins its removal; errors are the callee's. */
  readonly destroy: (sandbox: Sandbox, over: Over) => void;
}

export class TimeOuts implements Disposable {
  readonly #options: TimeOutOptions;
  readonly #reaper: Reaper;
  readonly #unused = new Unused();
  /** What is done about them takes a while. */
  readonly #busy = new Set<Sandbox>();

  constructor(options: TimeOutOptions) {
    this.#options = options;
    this.#reaper = new Reaper({
      rows: () =>
        options.residents.all().map((sandbox) => ({ id: sandbox.row.id, inMs: this.#inMs(sandbox) })),
      reap: (id) => this.#due(id),
    });
  }

  /** After every change of a sandbox's times. */
  look(): void {
    this.#reaper.look();
  }

  [Symbol.dispose](): void {
    this.#reaper[Symbol.dispose]();
  }

  #inMs(sandbox: Sandbox): number {
    return Math.min(dueInMs(sandbox), this.#unused.inMs(sandbox));
  }

  #due(id: SandboxId): void {
    const { residents, destroy } = this.#options;
    const sandbox = residents.peek(id);
    if (sandbox === undefined || this.#busy.has(sandbox)) return;
    if (this.#unused.inMs(sandbox) <= 0) {
      this.#do(sandbox, this.#endUnused(sandbox));
      return;
    }
    const { what } = isResting(sandbox)
      ? { what: 'lifetime' as const }
      : sandbox.activity.next(sandbox.row, isUsed(sandbox));
    if (what === 'lifetime' && sandbox.row.onTimeout === 'destroy') {
      destroy(sandbox, what);
      return;
    }
    this.#do(sandbox, this.#act(sandbox, what));
  }

  #do(sandbox: Sandbox, work: Promise<void>): void {
    const { log } = this.#options.world;
    this.#busy.add(sandbox);
    work
      .catch((error: unknown) => log.warn('sandbox.time_out', { sandbox: sandbox.row.id, error }))
      .finally(() => this.#busy.delete(sandbox));
  }

  async #endUnused(sandbox: Sandbox): Promise<void> {
    const { row, world, mailbox } = sandbox;
    if (row.hostRoot === null) return;
    const { when_unused: end, work } = row.hostRoot.root;
    world.log.info('sandbox.unused', { sandbox: row.id, action: end });
    const isOver = await mailbox.post(async () => {
      // Its turn may come late, and somebody may use it until then.
      if (this.#unused.inMs(sandbox) > 0) return false;
      if (end === 'destroy') return true;
      await stopProcesses(sandbox, false);
      // Now nothing can write any more.
      return work !== undefined && !(await hasWork(sandbox, work));
    });
    if (isOver) this.#options.destroy(sandbox, 'idle');
  }

  async #act(sandbox: Sandbox, what: ReturnType<Sandbox['activity']['next']>['what']): Promise<void> {
    const { activity, world, row } = sandbox;
    if (what === 'nothing') return;
    if (what === 'lifetime') {
      await this.#timeOut(sandbox, what);
      return;
    }
    const { cpuUs } = await world.driver.stats(row.id);
    // Somebody may have used it meanwhile.
    if (!isIdle(sandbox)) return;
    if (what === 'sample') activity.sampled(cpuUs);
    else if (activity.hasWorked(cpuUs)) activity.touch();
    else await this.#timeOut(sandbox, what);
  }

  async #timeOut(sandbox: Sandbox, over: Over): Promise<void> {
    const { world, row } = sandbox;
    world.log.info('sandbox.time_out', { sandbox: row.id, action: row.onTimeout });
    switch (row.onTimeout) {
      case 'destroy':
        this.#options.destroy(sandbox, over);
        return;
      case 'pause':
      case 'snapshot': {
        const rest =
          row.onTimeout === 'pause'
            ? (): Promise<void> => pause(sandbox, true)
            : () => this.#saveAndStop(sandbox);
        // Its turn may come late, and somebody may use it until then.
        const isDone = await sandbox.mailbox.post(async () => {
          if (over === 'idle' && !isIdle(sandbox)) return false;
          await rest();
          return true;
        });
        if (!isDone) return;
      }
    }
    // When it is done, and so once: what could not be done is tried again.
    sandbox.tell(timedOutEvent(sandbox, over));
  }

  /** Its files are there without the snapshot, too: one that can't be taken keeps nothing running. */
  async #saveAndStop(sandbox: Sandbox): Promise<void> {
    try {
      this.#options.admission.checkSnapshot(sandbox);
      await snapshot(sandbox);
    } catch (error) {
      sandbox.world.log.warn('sandbox.time_out', { sandbox: sandbox.row.id, snapshot: 'failed', error });
    }
    await stopProcesses(sandbox, true);
  }
}

export function timedOutEvent({ row }: Sandbox, over: Over): SandboxEvent {
  return { type: 'sandbox.timed_out', data: { over, action: row.onTimeout } };
}

function dueInMs(sandbox: Sandbox): number {
  const { activity, row, state } = sandbox;
  switch (state.phase) {
    case 'ready':
    case 'restarting':
      return activity.next(row, isUsed(sandbox)).inMs;
    case 'failed':
    case 'paused':
    case 'stopped':
      // Nothing of it runs, or it stands still: only its end may still come.
      return row.onTimeout === 'destroy'
        ? (activity.lifetimeLeftMs(row) ?? Number.POSITIVE_INFINITY)
        : Number.POSITIVE_INFINITY;
    case 'creating':
    case 'destroying':
      return Number.POSITIVE_INFINITY;
  }
}

function isResting({ state }: Sandbox): boolean {
  return state.phase === 'failed' || state.phase === 'paused' || state.phase === 'stopped';
}

function isIdle(sandbox: Sandbox): boolean {
  return sandbox.activity.next(sandbox.row, isUsed(sandbox)).inMs <= 0;
}

/** Somebody waits for a command. One in the background counts by what it writes and by its work. */
function isUsed(sandbox: Sandbox): boolean {
  const { runs, row: own, world } = sandbox;
  // Where work can't be measured every command counts: better kept too long than ended in the middle.
  if (runs.size > 0 && world.driver.warnings(own).some(({ code }) => code === 'cpu_limit')) return true;
  return [...runs.values()].some(({ row, isLookedAt }) =>
    row.kind === 'process' ? isLookedAt : row.kind !== 'job',
  );
}
