/**
 * Whether a transfer into a sandbox was ended because the sandbox holds more than it may: where nothing but measuring holds its limit, the
 * launcher ends all that writes, and counts it.
 */
import { AppError } from '@squash/contract/errors';
import type { Sandbox } from '../sandbox/sandbox.ts';

/** What is shorter is over before the launcher looks, and need not be asked about. */
const longBytes = 1_048_576;

export class UpperKills {
  readonly #sandbox: Sandbox;
  #bytes = 0;
  #before: Promise<number> | undefined;

  constructor(sandbox: Sandbox) {
    this.#sandbox = sandbox;
  }

  sent(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes >= longBytes) this.#before ??= this.#count();
  }

  /** What the transfer has failed with, told by its reason. */
  async explained(error: unknown): Promise<unknown> {
    if (!(error instanceof AppError) || error.code !== 'guest_failed') return error;
    const before = await this.#before;
    if (before === undefined || !((await this.#count()) > before)) return error;
    const message = 'The sandbox holds more than it may: what wrote to it was ended.';
    return new AppError('sandbox_full', message, { cause: error });
  }

  async #count(): Promise<number> {
    try {
      return (await this.#sandbox.world.driver.stats(this.#sandbox.row.id)).upperKills;
    } catch {
      // It is gone: the transfer has failed for that.
      return Number.NaN;
    }
  }
}
