/**
 * A second realm in the runtime itself, Deno's or Node's. It is no boundary: who leaves it is in the runtime. It is used where
 * the runtime is the boundary (Deno without a single permission).
 *
 * What would lead out: `import()` (refused by `source/guard.ts`, since its rejection is an error of the outer realm), and functions or errors of
 * the outer realm. The kernel alone holds `emit`, and turns whatever it throws into an error of its own.
 */
import vm from 'node:vm';
import type { Dispatch } from '../kernel/boot.ts';
import { kernelSource } from '../kernel/source.ts';
import type { Emit } from '../kernel/state.ts';
import { codeFile, kernelFile, type Engine, EngineError, type Realm } from './engine.ts';

export function createEngine(): Engine {
  const kernel = new vm.Script(kernelSource, { filename: kernelFile });
  return {
    label: `node:vm v8 ${process.versions.v8}`,
    boot(host) {
      const context = vm.createContext(vm.constants.DONT_CONTEXTIFY, {
        codeGeneration: { strings: false, wasm: false },
      });
      const boot = kernel.runInContext(context) as (emit: Emit) => Dispatch;
      return realmOf(boot(host.emit), context);
    },
  };
}

function realmOf(dispatch: Dispatch, context: vm.Context): Realm {
  return {
    dispatch,
    run(source) {
      let code: unknown;
      try {
        code = vm.runInContext(`(${source}\n)`, context, { filename: codeFile });
      } catch (failure) {
        throw new EngineError({ kind: 'syntax', name: 'SyntaxError', message: messageOf(failure) });
      }
      dispatch('run', code);
    },
    dispose() {},
  };
}

/** The error is the inner realm's: its message is asked for once, and only a string is taken. */
function messageOf(failure: unknown): string {
  const message: unknown =
    typeof failure === 'object' && failure !== null && 'message' in failure ? failure.message : undefined;
  return typeof message === 'string' ? message : 'the code can not be compiled';
}
