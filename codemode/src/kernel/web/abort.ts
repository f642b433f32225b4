/**
 * Part of the guest kernel: `AbortController` and `AbortSignal`, with listeners and without the classes of events: a listener gets an object with
 * `type` and `target`.
 */
import { namedError } from './text.ts';

type Listener = ((event: object) => unknown) | { handleEvent(event: object): unknown };

interface Registration {
  readonly listener: Listener;
  readonly once: boolean;
}

/** What the two classes share and nobody else can name. */
export interface AbortParts {
  readonly make: () => AbortSignal;
  readonly abort: (signal: AbortSignal, reason: unknown) => void;
}

export class AbortSignal {
  #aborted = false;
  #reason: unknown = undefined;
  #listeners: Registration[] = [];
  #followers: AbortSignal[] = [];
  onabort: unknown = null;
  static #isOurs = false;

  constructor() {
    if (!AbortSignal.#isOurs) throw new TypeError('Illegal constructor');
    AbortSignal.#isOurs = false;
  }

  /** Taken once, by the kernel, which then takes it away. */
  static parts(): AbortParts {
    return { make: () => AbortSignal.#make(), abort: (signal, reason) => signal.#abort(reason) };
  }

  static #make(): AbortSignal {
    AbortSignal.#isOurs = true;
    return new AbortSignal();
  }

  static abort(reason?: unknown): AbortSignal {
    const signal = AbortSignal.#make();
    signal.#abort(reason);
    return signal;
  }

  static timeout(ms: number): AbortSignal {
    const signal = AbortSignal.#make();
    setTimeout(
      () => signal.#abort(namedError('TimeoutError', 'The operation was aborted due to timeout')),
      ms,
    );
    return signal;
  }

  static any(signals: Iterable<AbortSignal>): AbortSignal {
    const made = AbortSignal.#make();
    const sources = [...signals];
    const first = sources.find((source) => source.#aborted);
    if (first !== undefined) made.#abort(first.#reason);
    else for (const source of sources) source.#followers[source.#followers.length] = made;
    return made;
  }

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }

  addEventListener(
    type: unknown,
    listener: Listener | null,
    options?: { readonly once?: unknown } | boolean,
  ): void {
    if (`${type}` !== 'abort' || listener === null || listener === undefined) return;
    if (this.#listeners.some((known) => known.listener === listener)) return;
    const once = typeof options === 'object' && options !== null && Boolean(options.once);
    this.#listeners[this.#listeners.length] = { listener, once };
  }

  removeEventListener(type: unknown, listener: Listener | null): void {
    if (`${type}` === 'abort')
      this.#listeners = this.#listeners.filter((known) => known.listener !== listener);
  }

  #abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason === undefined ? namedError('AbortError', 'This operation was aborted') : reason;
    const listeners = this.#listeners;
    this.#listeners = listeners.filter(({ once }) => !once);
    const event = { type: 'abort', target: this, currentTarget: this };
    if (typeof this.onabort === 'function') this.#call(this.onabort as Listener, event);
    for (let at = 0; at < listeners.length; at += 1)
      this.#call((listeners[at] as Registration).listener, event);
    const followers = this.#followers;
    this.#followers = [];
    for (let at = 0; at < followers.length; at += 1) (followers[at] as AbortSignal).#abort(this.#reason);
  }

  #call(listener: Listener, event: object): void {
    try {
      if (typeof listener === 'function') Reflect.apply(listener, this, [event]);
      else listener.handleEvent(event);
    } catch (thrown) {
      // Nobody here can be told: as of a timer, it ends the run.
      queueMicrotask(() => {
        throw thrown;
      });
    }
  }
}

export function makeAbortController({ make, abort }: AbortParts): unknown {
  return class AbortController {
    readonly #signal = make();

    get signal(): AbortSignal {
      return this.#signal;
    }

    abort(reason?: unknown): void {
      abort(this.#signal, reason);
    }
  };
}
