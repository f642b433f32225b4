/**
 * V8 in an isolate of its own: the fastest at arithmetic. The heap is separate, the process is not, and a fault in V8 reaches
 * the process; that is why it is a process that has nothing.
 *
 * Only primitives and copies cross. No `Reference` of the host ever gets in: whoever holds one can reach the host's realm.
 */
import ivm from 'isolated-vm';
import { kernelSource } from '../kernel/source.ts';
import type { Dispatch } from '../kernel/boot.ts';
import type { EmitMessage } from '../kernel/state.ts';
import {
  codeFile,
  kernelFile,
  type DispatchMessage,
  type Engine,
  EngineError,
  type EngineHost,
  type Realm,
} from './engine.ts';

export function createEngine(): Engine {
  return {
    label: `isolated-vm v8 ${process.versions.v8}`,
    boot(host, limits) {
      const isolate = new ivm.Isolate({ memoryLimit: limits.memoryMb });
      const context = isolate.createContextSync();
      return new IsolateRealm({ isolate, context, host, countsCpu: limits.countsCpu });
    },
  };
}

interface CallOptions {
  readonly result: { readonly copy: true };
  readonly timeout?: number;
}

interface RealmParts {
  readonly isolate: ivm.Isolate;
  readonly context: ivm.Context;
  readonly host: EngineHost;
  readonly countsCpu: boolean;
}

/**
 * V8 can be interrupted by the wall clock alone. A stretch that computes all the time is over its budget by then, unless the machine gives it
 * less than half of a processor.
 */
const wallPerCpu = 2;
/** No time-out is shorter: at the end of a budget ever less is left. */
const timeoutMsMin = 16;

/**
 * A time-out rounded up to a half, a quarter, … of that for the whole budget. isolated-vm has one thread for all deadlines
 * that come in their order, and starts another for each that is earlier than those it knows: without steps a program of
 * many short stretches would have a thread, with 8 MB of stack, for every one of them.
 */
function inSteps(timeoutMs: number, mostMs: number): number {
  let step = mostMs;
  while (step / 2 >= Math.max(timeoutMs, timeoutMsMin)) step /= 2;
  return Math.ceil(step);
}

class IsolateRealm implements Realm {
  readonly #isolate: ivm.Isolate;
  readonly #context: ivm.Context;
  readonly #dispatch: ivm.Reference<Dispatch>;
  readonly #host: EngineHost;
  readonly #countsCpu: boolean;
  #budgetMs = Number.POSITIVE_INFINITY;
  #cpuMsMax = Number.POSITIVE_INFINITY;

  constructor({ isolate, context, host, countsCpu }: RealmParts) {
    this.#countsCpu = countsCpu;
    this.#isolate = isolate;
    this.#context = context;
    this.#host = host;
    const emit = new ivm.Callback((...message: EmitMessage) => {
      host.emit(...message);
    });
    this.#dispatch = context.evalClosureSync(
      `return ${kernelSource}((...given) => { $0(...given); });`,
      [emit],
      {
        filename: kernelFile,
        result: { reference: true },
      },
    ) as ivm.Reference<Dispatch>;
  }

  dispatch(...message: DispatchMessage): void {
    this.#guarded((options) => this.#dispatch.applySync(undefined, [...message], options));
  }

  run(source: string, cpuMs: number): void {
    if (this.#countsCpu) {
      this.#budgetMs = cpuMs;
      this.#cpuMsMax = this.#usedMs() + cpuMs;
    }
    this.#guarded((options) => {
      const code = this.#compile(source);
      this.#dispatch.applySync(undefined, ['run', code.derefInto({ release: true })], options);
    });
  }

  /** Only here a SyntaxError is the program's own: later the code can throw one wherever it likes. */
  #compile(source: string): ivm.Reference {
    try {
      return this.#context.evalSync(`(${source}\n)`, { filename: codeFile, reference: true });
    } catch (failure) {
      if (!(failure instanceof SyntaxError)) throw failure;
      throw new EngineError({ kind: 'syntax', name: 'SyntaxError', message: failure.message });
    }
  }

  dispose(): void {
    if (!this.#isolate.isDisposed) this.#isolate.dispose();
  }

  #leftMs(): number {
    return this.#cpuMsMax - (this.#isolate.isDisposed ? 0 : this.#usedMs());
  }

  #usedMs(): number {
    return Number(this.#isolate.cpuTime) / 1e6;
  }

  #guarded(work: (options: CallOptions) => void): void {
    const isBounded = Number.isFinite(this.#cpuMsMax);
    const timeout = isBounded ? inSteps(this.#leftMs() * wallPerCpu, this.#budgetMs * wallPerCpu) : 0;
    const began = performance.now();
    let failure: unknown;
    try {
      work({ result: { copy: true }, ...(isBounded && { timeout }) });
    } catch (cause) {
      if (cause instanceof EngineError) throw cause;
      failure = cause;
    }
    if (this.#isolate.isDisposed)
      throw new EngineError({ kind: 'memory', name: 'Error', message: 'Memory limit exceeded' });
    // Told by the clock and not by the message, which the code could have made.
    const isInterrupted = failure !== undefined && performance.now() - began >= timeout;
    if (isBounded && (isInterrupted || this.#leftMs() <= 0))
      throw new EngineError({ kind: 'cpu', name: 'Error', message: 'CPU time limit exceeded' });
    // isolated-vm reports a rejection that nobody handled as a failure of the call it happened in: its words are the code's.
    if (failure !== undefined) this.#host.unhandled(failure instanceof Error ? failure.message : 'a value');
  }
}
