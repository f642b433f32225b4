/**
 * One run in the worker: a realm, its timers, and the frames between them and the host. What the kernel emits after the end is
 * dropped here; the host drops it a second time.
 */
import { EngineError, type EngineHost, type Realm } from '../engines/engine.ts';
import type { RunSettings } from '../kernel/state.ts';
import type { WorkerError, WorkerFrame } from '../protocol/frames.ts';

/** One is enough to tell; a program that makes thousands must not flood the host. */
const unhandledMax = 3;

/** Said at once, where the program would wait for an answer until its time is over. */
const notSaved = {
  kind: 'runtime',
  name: 'Error',
  message: 'this engine can not save a run: quickjs can',
} as const;

export class Session implements EngineHost {
  readonly #send: (frame: WorkerFrame) => void;
  readonly #timers = new Map<number, NodeJS.Timeout>();
  #nonce: string | undefined;
  #realm: Realm | undefined;
  #unhandled = 0;
  readonly ended: Promise<void>;
  #end: () => void = () => {};

  constructor(send: (frame: WorkerFrame) => void) {
    this.#send = send;
    this.ended = new Promise((settle) => {
      this.#end = settle;
    });
  }

  attach(realm: Realm): void {
    this.#realm = realm;
  }

  start(run: {
    readonly nonce: string;
    readonly source: string;
    readonly settings: RunSettings;
    readonly cpuMs: number;
  }): void {
    this.#nonce = run.nonce;
    this.#guarded((realm) => {
      realm.dispatch('open', JSON.stringify(run.settings));
      realm.run(run.source, run.cpuMs);
    });
  }

  /** The realm was restored: its code waits for an answer. */
  resume(nonce: string): void {
    this.#nonce = nonce;
    this.#guarded((realm) => realm.dispatch('unpark'));
  }

  settle(call: number, ok: boolean, text: string | undefined): void {
    this.#guarded((realm) => realm.dispatch('settle', call, ok, text));
  }

  suspend(): void {
    this.#guarded((realm) => {
      if (realm.snapshot === undefined) throw new EngineError(notSaved);
      realm.dispatch('park');
    });
    const nonce = this.#nonce;
    const bytes = this.#realm?.snapshot?.();
    if (nonce === undefined || bytes === undefined) return;
    this.#send({ t: 'snapshot', nonce, bytes: Buffer.from(bytes).toString('base64') });
    this.#finish();
  }

  emit: EngineHost['emit'] = (...[operation, a, b, c]) => {
    const nonce = this.#nonce;
    if (nonce === undefined) return;
    switch (operation) {
      case 'call':
        this.#send({ t: 'call', nonce, call: Number(a), tool: Number(b), text: String(c) });
        return;
      case 'log':
        this.#send({ t: 'log', nonce, level: String(a), text: String(b) });
        return;
      case 'out':
        this.#send({ t: 'out', nonce, block: String(a) });
        return;
      case 'timer':
        this.#setTimer(Number(a), Number(b), c === 1);
        return;
      case 'done':
        this.#done(nonce, {
          ok: a === true,
          text: b === undefined ? undefined : String(b),
          dropped: Number(c),
        });
        return;
      default:
    }
  };

  unhandled = (text: string): void => {
    this.#unhandled += 1;
    if (this.#nonce === undefined || this.#unhandled > unhandledMax) return;
    this.#send({ t: 'unhandled', nonce: this.#nonce, text: text.slice(0, 1000) });
  };

  #setTimer(id: number, ms: number, repeats: boolean): void {
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    if (ms < 0) return;
    const fire = () => {
      if (!repeats) this.#timers.delete(id);
      this.#guarded((realm) => realm.dispatch('fire', id));
    };
    this.#timers.set(id, repeats ? setInterval(fire, ms) : setTimeout(fire, ms));
  }

  #done(
    nonce: string,
    outcome: { readonly ok: boolean; readonly text: string | undefined; readonly dropped: number },
  ): void {
    const { ok, text, dropped } = outcome;
    // The kernel wrote it: three strings and a kind.
    if (ok) this.#send({ t: 'done', nonce, ok, text, dropped });
    else {
      const error = JSON.parse(text ?? '{}') as WorkerError;
      const isFull = error.kind === 'runtime' && error.message === 'null' && this.#realm?.isFull?.() === true;
      this.#send({
        t: 'done',
        nonce,
        ok,
        error: isFull ? { ...error, kind: 'memory', message: 'out of memory' } : error,
        dropped,
      });
    }
    this.#finish();
  }

  #guarded(work: (realm: Realm) => void): void {
    const realm = this.#realm;
    if (realm === undefined) return;
    try {
      work(realm);
    } catch (failure) {
      if (this.#nonce === undefined) return;
      const error: WorkerError =
        failure instanceof EngineError
          ? failure.fault
          : {
              kind: 'crash',
              name: 'Error',
              message: failure instanceof Error ? failure.message : 'the engine failed',
            };
      this.#send({ t: 'done', nonce: this.#nonce, ok: false, error, dropped: 0 });
      this.#finish();
    }
  }

  #finish(): void {
    this.#nonce = undefined;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    const realm = this.#realm;
    this.#realm = undefined;
    // Not now: the realm may be on the stack below.
    setImmediate(() => {
      try {
        realm?.dispose();
      } finally {
        this.#end();
      }
    });
  }
}
