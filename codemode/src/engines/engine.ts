/**
 * What an engine is to the worker: a realm with the kernel booted in it. Everything else (protocol, timers, the order of
 * things) is the worker's, and the same for all engines.
 */
import type { Emit } from '../kernel/state.ts';
import type { EngineLimits } from '../protocol/frames.ts';

/** The file name that frames of the kernel carry; frames of the code carry `codemode.js`. */
export const kernelFile = 'codemode-kernel.js';
export const codeFile = 'codemode.js';

/** A failure of the engine, not of the code in it. */
export interface EngineFault {
  readonly kind: 'memory' | 'syntax' | 'crash' | 'runtime' | 'cpu';
  readonly name: string;
  readonly message: string;
}

export interface EngineHost {
  readonly emit: Emit;
  /** A promise of the code was rejected and nobody listens. */
  readonly unhandled: (text: string) => void;
}

export type DispatchMessage = readonly [
  operation: string,
  a?: string | number,
  b?: boolean,
  c?: string | undefined,
];

/** One realm for one run. */
export interface Realm {
  /** The kernel's `dispatch`, microtasks included. @throws EngineError */
  dispatch(...message: DispatchMessage): void;
  /** Evaluates the text of one function expression and gives the function to the kernel. @throws EngineError */
  run(source: string, cpuMs: number): void;
  /** The heap was full: what was thrown then may be `null` for want of memory to make an error of. */
  readonly isFull?: () => boolean;
  /** The whole realm as bytes; only where the engine can. */
  readonly snapshot?: () => Uint8Array;
  dispose(): void;
}

export interface Engine {
  /** With version, as it appears in `ready`. */
  readonly label: string;
  boot(host: EngineHost, limits: EngineLimits): Realm | Promise<Realm>;
  /** A realm from `snapshot()`'s bytes, with a processor time of its own. */
  readonly restore?: (
    host: EngineHost,
    limits: EngineLimits,
    saved: { readonly bytes: Uint8Array; readonly cpuMs: number },
  ) => Promise<Realm>;
}

export class EngineError extends Error {
  readonly fault: EngineFault;

  constructor(fault: EngineFault) {
    super(fault.message);
    this.name = 'EngineError';
    this.fault = fault;
  }
}
