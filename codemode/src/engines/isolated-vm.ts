/**
 * V8 in an isolate of its own: the fastest at arithmetic. The heap is separate, the process is not, and a fault in V8 reaches
 * the process; that is why it is a process that has nothing.
 *
 * Only primitives and copies cross. No `Reference` of the host ever gets in: whoever holds one can reach the host's realm.
 */
import ivm from 'isolated-vm';
import { codeFile, kernelFile, kernelSource } from '../kernel/source.ts';
import type { Dispatch } from '../kernel/boot.ts';
import type { EmitMessage } from '../kernel/state.ts';
import { type DispatchMessage, type Engine, EngineError, type EngineHost, type Realm } from './engine.ts';

export function createEngine(): Engine {
  return {
    label: `isolated-vm v8 ${process.versions.v8}`,
    boot(host, limits) {
      const isolate = new ivm.Isolate({ memoryLimit: limits.memoryMb });
      const context = isolate.createContextSync();
      return new IsolateRealm({ isolate, context, host });
    },
  };
}

class IsolateRealm implements Realm {
  readonly #isolate: ivm.Isolate;
  readonly #context: ivm.Context;
  readonly #dispatch: ivm.Reference<Dispatch>;
  readonly #host: EngineHost;

  constructor({
    isolate,
    context,
    host,
  }: { readonly isolate: ivm.Isolate; readonly context: ivm.Context; readonly host: EngineHost }) {
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
    this.#guarded(() => this.#dispatch.applySync(undefined, [...message], { result: { copy: true } }));
  }

  run(source: string): void {
    this.#guarded(() => {
      const code = this.#compile(source);
      this.#dispatch.applySync(undefined, ['run', code.derefInto({ release: true })], {
        result: { copy: true },
      });
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

  #guarded(work: () => void): void {
    try {
      work();
    } catch (failure) {
      if (failure instanceof EngineError) throw failure;
      if (this.#isolate.isDisposed)
        throw new EngineError({ kind: 'memory', name: 'Error', message: 'Memory limit exceeded' });
      // isolated-vm reports a rejection that nobody handled as a failure of the call it happened in: its words are the code's.
      this.#host.unhandled(failure instanceof Error ? failure.message : String(failure));
    }
  }
}
