/** Every executor by its name, for what runs on all of them. */
import type { PooledExecutor } from '../executor.ts';
import { createExecutor, type ExecutorName, type ExecutorOptions } from '../executors.ts';
import { createVm2Executor } from '../vm2.ts';

export function executorOf(name: ExecutorName, options: ExecutorOptions): PooledExecutor {
  return name === 'vm2'
    ? createVm2Executor({ ...options, allowWeakIsolation: true })
    : createExecutor(name, options);
}
