/**
 * How much a sandbox's upper holds, measured beside everything else: who asks gets the latest figure at once.
 *
 * Measured again some seconds after a command ended, while commands run, and when it stops; an idle sandbox is not measured.
 * A tree that takes long to walk is walked rarely, so that a sandbox with a million files is no load.
 */
import { setTimeout as passed } from 'node:timers/promises';
import { limits } from '@squash/contract/limits';
import type { SandboxRow } from '#store/rows.ts';
import type { UpperUsage } from '../drivers/driver.ts';
import type { World } from './world.ts';

export class UpperUsageWatch {
  readonly #world: World;
  readonly #row: () => SandboxRow;
  #usage: UpperUsage = { bytes: 0, inodes: 0 };
  #timer: NodeJS.Timeout | undefined;
  #isMeasuring = false;
  #isTouched = false;
  #isClosed = false;
  #pauseMs: number = limits.upperUsageFirstMs;
  #hasMeasured = false;

  constructor(world: World, row: () => SandboxRow) {
    this.#world = world;
    this.#row = row;
  }

  get bytes(): number {
    // Nobody has looked since the daemon began: the next look has it.
    if (!this.#hasMeasured) this.touch();
    return this.#usage.bytes;
  }

  /** Undefined where nobody has looked yet. */
  get measured(): UpperUsage | undefined {
    return this.#hasMeasured ? this.#usage : undefined;
  }

  /** The latest figures, without asking for newer ones. */
  get known(): UpperUsage {
    return this.#usage;
  }

  /** Something may have been written. */
  touch(): void {
    this.#isTouched = true;
    if (this.#timer !== undefined || this.#isMeasuring || this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#measure(), this.#pauseMs).unref();
  }

  /**
   * Nothing writes to it any more, and the next who asks is to be told. Resolves when it was measured, and no later than a second from
   * now; a tree that takes long to walk is measured when it is its time.
   */
  async settle(): Promise<void> {
    this.touch();
    if (this.#timer === undefined || this.#pauseMs > limits.upperUsageAgeMs) return;
    clearTimeout(this.#timer);
    await Promise.race([this.#measure(), passed(limits.upperUsageFirstMs, undefined, { ref: false })]);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #measure(): Promise<void> {
    this.#timer = undefined;
    this.#isMeasuring = true;
    this.#isTouched = false;
    const row = this.#row();
    try {
      const beganMs = this.#world.clock.monoMs();
      this.#usage = await this.#world.usages.run(() =>
        this.#world.driver.upperUsage(row.id, row.upperGeneration),
      );
      this.#hasMeasured = true;
      const tookMs = this.#world.clock.monoMs() - beganMs;
      this.#pauseMs = Math.max(limits.upperUsageAgeMs, tookMs * limits.upperUsageDutyCycle);
    } catch {
      // The upper is being replaced or removed; the last figure stands until somebody asks again.
      this.#pauseMs = limits.upperUsageAgeMs;
    } finally {
      this.#isMeasuring = false;
    }
    if (this.#isTouched) this.touch();
  }
}
