/**
 * The executors by name: which engine runs in which place, with how many processes. What each protects against is in docs/codemode.md. `vm2` is an
 * adapter of its own (`vm2.ts`): nobody gets it who does not ask for it.
 */
import { vm2VersionMin } from './engines/vm2-version.ts';
import { CodemodeError } from './errors.ts';
import { PooledExecutor } from './executor.ts';
import type { LogStyle } from './host/log-meter.ts';
import { type Limits, withDefaults } from './limits.ts';
import { childPlace } from './places/child.ts';
import { denoPlace, type PermissionRequest } from './places/deno.ts';
import { containerPlace } from './places/container.ts';
import { sandboxPlace } from './places/sandbox.ts';
import { denoBinary, nodeCommand } from './places/programs.ts';

export type ExecutorName = 'quickjs' | 'isolated-vm' | 'deno' | 'container' | 'sandbox' | 'vm2';

export interface ExecutorOptions {
  /** The defaults of its runs; `memoryMb` holds for all of them. */
  readonly limits?: Partial<Limits>;
  /** Engines kept waiting, so that a run starts at once. */
  readonly spares?: number;
  /** Engines at the same time; further runs wait. */
  readonly workersMax?: number;
  /** How `logs` marks levels. */
  readonly logStyle?: LogStyle;
  /** The engine inside `container` and `sandbox`. */
  readonly engine?: 'quickjs' | 'isolated-vm';
  /** How `sandbox` calls the Squash command line, which knows its daemon; `squash` of the PATH unless given. */
  readonly squash?: readonly [string, ...string[]];
  /** `deno`: called for each permission that the runtime was asked for. All are denied; an entry is a finding. */
  readonly onPermissionRequest?: (request: PermissionRequest) => void;
}

/** How it is got, for those who still need it. */
export const vm2Advice = `npm install vm2@${vm2VersionMin}, import '@squash/codemode/vm2'`;

/** A process holds what its earlier runs left in the engine's own memory; after so many it is replaced. */
const runsPerWorker = 100;
const startMsMax = 30_000;

/** What is the same for all of them. */
export function commonOptions(name: ExecutorName, options: ExecutorOptions) {
  const limits = withDefaults(options.limits);
  return {
    name,
    limits,
    logStyle: options.logStyle ?? 'bridge',
    memoryMb: limits.memoryMb,
    spares: options.spares ?? 1,
    workersMax: options.workersMax ?? 8,
    startMsMax,
  } as const;
}

/** @throws CodemodeError `unavailable` where the engine's package is missing, `config` for a name that is none */
export function createExecutor(
  name: Exclude<ExecutorName, 'vm2'>,
  options: ExecutorOptions = {},
): PooledExecutor {
  const shared = commonOptions(name, options);
  const { limits } = shared;
  switch (name) {
    case 'quickjs':
    case 'isolated-vm':
      return new PooledExecutor(childPlace(nodeCommand(name, limits.memoryMb)), {
        ...shared,
        engine: name,
        runsPerWorker,
      });
    case 'deno':
      // Now, not at its first run: it may not be installed.
      denoBinary();
      // The runtime is the boundary: whoever leaves the realm must not meet the next run.
      return new PooledExecutor(
        denoPlace({ memoryMb: limits.memoryMb, onPermissionRequest: options.onPermissionRequest }),
        {
          ...shared,
          engine: 'node-vm',
          runsPerWorker: 1,
        },
      );
    case 'container': {
      const engine = options.engine ?? 'quickjs';
      return new PooledExecutor(containerPlace({ engine, memoryMb: limits.memoryMb }), {
        ...shared,
        engine,
        runsPerWorker,
      });
    }
    case 'sandbox': {
      const engine = options.engine ?? 'quickjs';
      const place = sandboxPlace({ engine, memoryMb: limits.memoryMb, squash: options.squash ?? ['squash'] });
      return new PooledExecutor(place, { ...shared, engine, runsPerWorker, engineCountsCpu: true });
    }
    default:
      throw new CodemodeError(
        'config',
        (name as string) === 'vm2'
          ? `vm2 is an adapter of its own: ${vm2Advice}, and call its createVm2Executor()`
          : `there is no executor "${String(name)}"`,
      );
  }
}
