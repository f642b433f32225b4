/**
 * Ends what is open of keys that hold no more: streams, WebSockets, downloads, answers that are waited for.
 *
 * Looked at every second, and ended at the second look that finds its key gone: whoever removes his own key gets his answer. What
 * such a request has begun goes on, as where a client goes away.
 */
import type { Duplex } from 'node:stream';
import { limits } from '@squash/contract/limits';
import type { Caller } from './caller.ts';

interface Open {
  readonly key: string;
  readonly socket: Duplex;
  isDoomed: boolean;
}

export class KeyWatch {
  readonly #holds: (key: string) => boolean;
  readonly #open = new Set<Open>();
  #isWaiting = false;

  constructor(holds: (key: string) => boolean) {
    this.#holds = holds;
  }

  /** @returns to be called when the request is over */
  add({ key }: Caller, socket: Duplex): (() => void) | undefined {
    if (key === null) return undefined;
    const open: Open = { key, socket, isDoomed: false };
    this.#open.add(open);
    this.#lookLater();
    return () => this.#open.delete(open);
  }

  #look(): void {
    for (const open of this.#open) {
      if (open.isDoomed) open.socket.destroy();
      else open.isDoomed = !this.#holds(open.key);
    }
    if (this.#open.size > 0) this.#lookLater();
  }

  #lookLater(): void {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    const look = (): void => {
      this.#isWaiting = false;
      this.#look();
    };
    setTimeout(look, limits.keyLookMs).unref();
  }
}
