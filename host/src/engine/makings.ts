/** Creates that their callers may ask for again: one request, one sandbox, however often it comes and whoever died between. */
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import type { Once } from '@squash/contract/once';
import type { SandboxInfo } from '@squash/contract/sandbox';
import type { World } from '../sandbox/world.ts';

interface Making {
  readonly once: Once;
  readonly done: Promise<SandboxInfo>;
}

export class Makings {
  readonly #world: World;
  readonly #get: (id: SandboxId) => SandboxInfo;
  /** Under way: what is made has no row in the first moments. */
  readonly #going = new Map<string, Making>();

  constructor(world: World, get: (id: SandboxId) => SandboxInfo) {
    this.#world = world;
    this.#get = get;
  }

  /** @throws idempotency_mismatch, and what `create` does: then the next one tries anew */
  async make(once: Once, create: () => Promise<SandboxInfo>): Promise<SandboxInfo> {
    const name = `${once.caller}\0${once.key}`;
    const going = this.#going.get(name);
    if (going !== undefined) {
      if (going.once.digest === once.digest && going.once.operation === once.operation)
        return await going.done;
      throw new AppError(
        'idempotency_mismatch',
        'The Idempotency-Key was sent before with another request, which goes on',
      );
    }
    const { store, clock } = this.#world;
    const made = store.read(() => store.idempotency.find(once, clock.wallMs()));
    if (made !== undefined) return this.#get(made.sandbox);
    const done = create();
    this.#going.set(name, { once, done });
    try {
      return await done;
    } finally {
      this.#going.delete(name);
    }
  }
}
