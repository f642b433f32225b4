/**
 * vm2: the code shares the process's heap, behind Proxies. New ways out of it are found every few months, so it is NOT a security
 * boundary and has to be asked for by name; the process around it, which has nothing, is what limits the damage.
 *
 * It shows two differences to the other engines: its global object can't be sealed, and there is no `Proxy`.
 */
import { createRequire } from 'node:module';
import { VM } from 'vm2';
import type { Dispatch } from '../kernel/boot.ts';
import { kernelSource } from '../kernel/source.ts';
import type { Emit } from '../kernel/state.ts';
import { codeFile, kernelFile, type Engine, EngineError, type Realm } from './engine.ts';
import { isVm2Recent, vm2VersionMin } from './vm2-version.ts';

export function createEngine(): Engine {
  const { version } = createRequire(import.meta.url)('vm2/package.json') as { readonly version: string };
  if (!isVm2Recent(version))
    throw new EngineError({
      kind: 'crash',
      name: 'Error',
      message: `vm2 ${version} has known ways out; ${vm2VersionMin} at least`,
    });
  return {
    label: `vm2 ${version}`,
    boot(host) {
      const vm = new VM({ eval: false, wasm: false, sandbox: {} });
      const boot = vm.run(kernelSource, kernelFile) as (emit: Emit) => Dispatch;
      return realmOf(vm, boot(host.emit));
    },
  };
}

function realmOf(vm: VM, dispatch: Dispatch): Realm {
  return {
    dispatch,
    run(source) {
      let code: unknown;
      try {
        code = vm.run(`(${source}\n)`, codeFile);
      } catch (failure) {
        const message = failure instanceof Error ? failure.message : 'the code can not be compiled';
        throw new EngineError({ kind: 'syntax', name: 'SyntaxError', message });
      }
      dispatch('run', code);
    },
    dispose() {},
  };
}
