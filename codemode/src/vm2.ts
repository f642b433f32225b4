/**
 * `@squash/codemode/vm2`: the executor for those who come from vm2 and can't leave it yet. It is no security boundary: ways out of it are found every
 * few months. The package `vm2` is not installed with this one.
 *
 *     import { createVm2Executor } from '@squash/codemode/vm2';
 *     await using executor = createVm2Executor({ allowWeakIsolation: true });
 */
import './node-version.ts';
import { CodemodeError } from './errors.ts';
import { PooledExecutor } from './executor.ts';
import { commonOptions, type ExecutorOptions } from './executors.ts';
import { childPlace } from './places/child.ts';
import { nodeCommand } from './places/programs.ts';

export interface Vm2Options extends Pick<ExecutorOptions, 'limits' | 'logStyle' | 'spares' | 'workersMax'> {
  /** It runs only where this says so. */
  readonly allowWeakIsolation?: boolean;
}

/** @throws CodemodeError `config` without consent, `unavailable` where vm2 is not installed */
export function createVm2Executor(options: Vm2Options = {}): PooledExecutor {
  if (options.allowWeakIsolation !== true)
    throw new CodemodeError(
      'config',
      'vm2 is no security boundary: set allowWeakIsolation to use it for code you trust',
    );
  const shared = commonOptions('vm2', options);
  return new PooledExecutor(childPlace(nodeCommand('vm2', shared.memoryMb)), {
    ...shared,
    engine: 'vm2',
    runsPerWorker: 1,
  });
}
