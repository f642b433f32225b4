/** One pull or push that any number of clients wait for, none of them longer than he likes. When nobody has asked for a while it ends. */
import type { ImagePull } from '@squash/contract/image';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';

/** What is under way. */
export interface Taking {
  readonly name: string;
  readonly progress: (change: Progress) => void;
  readonly signal: AbortSignal;
}

export type Progress = Partial<Pick<ImagePull, 'layers' | 'layers_done' | 'bytes' | 'bytes_done'>>;

interface Errand<State, Result> {
  /** Of the image that is pulled or pushed. */
  readonly name: string;
  readonly verb: 'pull' | 'push';
  /** How far it is before it begins. */
  readonly state: State;
  readonly body: (progress: (change: Partial<State>) => void, signal: AbortSignal) => Promise<Result>;
}

export class Pull<State extends object, Result> {
  readonly #what: string;
  readonly #stop = new AbortController();
  readonly #done: Promise<Result>;
  #state: State;
  #waiting = 0;
  #forgotten: NodeJS.Timeout | undefined;

  constructor({ name, verb, state, body }: Errand<State, Result>) {
    this.#what = `Cannot ${verb} image "${name}"`;
    this.#state = state;
    this.#done = body((change) => {
      this.#state = { ...this.#state, ...change };
    }, this.#stop.signal);
    const late = new AppError('registry_unavailable', `${this.#what}: it takes too long`);
    const timer = setTimeout(() => this.#stop.abort(late), limits.imagePullMsMax).unref();
    void this.settled.then(() => clearTimeout(timer));
  }

  /** Resolves when nothing of it goes on; never rejects. */
  get settled(): Promise<void> {
    return this.#done.then(
      () => undefined,
      () => undefined,
    );
  }

  stop(): void {
    this.#stop.abort(new AppError('registry_unavailable', `${this.#what}: it was removed meanwhile`));
  }

  /** To its end. */
  result(): Promise<Result> {
    return this.#asked(() => this.#done);
  }

  /** @throws why it failed */
  async wait(
    waitMs: number,
    signal: AbortSignal,
  ): Promise<{ readonly state: State; readonly result: Result | null }> {
    return await this.#asked(async () => {
      const enough = Promise.withResolvers<undefined>();
      const end = (): void => enough.resolve(undefined);
      const timer = setTimeout(end, waitMs);
      signal.addEventListener('abort', end, { once: true });
      try {
        const result = (await Promise.race([this.#done, enough.promise])) ?? null;
        return { state: this.#state, result };
      } finally {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
      }
    });
  }

  async #asked<T>(body: () => Promise<T>): Promise<T> {
    this.#waiting += 1;
    clearTimeout(this.#forgotten);
    try {
      return await body();
    } finally {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#forgetLater();
    }
  }

  #forgetLater(): void {
    clearTimeout(this.#forgotten);
    const forgotten = new AppError('registry_unavailable', `${this.#what}: nobody asks for it any more`);
    this.#forgotten = setTimeout(() => this.#stop.abort(forgotten), limits.imageForgottenMs);
    this.#forgotten.unref();
    void this.settled.then(() => clearTimeout(this.#forgotten));
  }
}
