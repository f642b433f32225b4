/**
 * One ordered, bounded queue of operations: what changes a sandbox happens one after the other, never torn.
 *
 * Bounded because a client in a loop must get an answer (`sandbox_busy`) rather than fill the memory.
 */
import { AppError } from '@squash/contract/errors';

interface Letter {
  readonly run: () => Promise<void>;
  readonly refuse: (error: unknown) => void;
}

export class Mailbox {
  readonly #name: string;
  readonly #waitingMax: number;
  readonly #waiting: Letter[] = [];
  #isRunning = false;
  #closed: AppError | undefined;
  #idle: (() => void)[] = [];

  constructor(name: string, waitingMax: number) {
    this.#name = name;
    this.#waitingMax = waitingMax;
  }

  /** Runs `operation` after all that were posted before it. @throws sandbox_busy, or what `close` was given */
  post<T>(operation: () => Promise<T>): Promise<T> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    if (this.#waiting.length >= this.#waitingMax) {
      return Promise.reject(
        new AppError(
          'sandbox_busy',
          `Cannot queue another operation for sandbox "${this.#name}": ${this.#waiting.length} wait already: try again later`,
        ),
      );
    }
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ run: () => operation().then(resolve, reject), refuse: reject });
      if (!this.#isRunning) void this.#work();
    });
  }

  /** Refuses everything that waits and everything later; the operation that runs goes on. */
  close(why: AppError): void {
    this.#closed ??= why;
    for (const letter of this.#waiting.splice(0)) letter.refuse(why);
  }

  get isIdle(): boolean {
    return !this.#isRunning;
  }

  /** Resolves when nothing runs and nothing waits. */
  idle(): Promise<void> {
    if (!this.#isRunning) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  async #work(): Promise<void> {
    this.#isRunning = true;
    for (let letter = this.#waiting.shift(); letter !== undefined; letter = this.#waiting.shift()) {
      await letter.run();
    }
    this.#isRunning = false;
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}

/** At most `max` bodies at once; the others wait in order. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(max: number) {
    this.#free = max;
  }

  async run<T>(body: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await body();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

/**
 * Many readers or one writer: layers are looked up by many operations at once, and collected by none meanwhile.
 * A writer that waits holds back later readers, so that it comes to its turn.
 */
export class SharedLock {
  #readers = 0;
  #isWriting = false;
  readonly #waiting: { readonly isWriter: boolean; readonly go: () => void }[] = [];

  async shared<T>(body: () => Promise<T>): Promise<T> {
    if (this.#isWriting || this.#waiting.length > 0) await this.#wait(false);
    else this.#readers += 1;
    try {
      return await body();
    } finally {
      this.#readers -= 1;
      this.#next();
    }
  }

  async exclusive<T>(body: () => Promise<T>): Promise<T> {
    if (this.#isWriting || this.#readers > 0 || this.#waiting.length > 0) await this.#wait(true);
    else this.#isWriting = true;
    try {
      return await body();
    } finally {
      this.#isWriting = false;
      this.#next();
    }
  }

  #wait(isWriter: boolean): Promise<void> {
    return new Promise((go) => this.#waiting.push({ isWriter, go }));
  }

  #next(): void {
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      if (this.#isWriting || (first.isWriter && this.#readers > 0)) return;
      this.#waiting.shift();
      if (first.isWriter) this.#isWriting = true;
      else this.#readers += 1;
      first.go();
    }
  }
}
