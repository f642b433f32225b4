/**
 * Part of the guest kernel: what it keeps for the one run of its realm. Nothing of it is reachable from the code: it lives in
 * closures, never on an object the code can name.
 */
import { lockProperty } from './harden.ts';
import type { Primordials } from './primordials.ts';

/** How the kernel speaks to its engine: an operation and up to three strings, numbers or booleans. */
export type Emit = (...message: EmitMessage) => void;
export type EmitMessage = readonly [
  operation: string,
  a?: string | number | boolean | undefined,
  b?: string | number | undefined,
  c?: string | number | undefined,
];

/** What the host sends when a run begins. */
export interface RunSettings {
  readonly codec: 'structured' | 'json';
  readonly argBytes: number;
  readonly resultBytes: number;
  readonly logBytes: number;
  readonly logLines: number;
  readonly timers: number;
  /** For `Math.random`: 32 hexadecimal digits. */
  readonly seed: string;
  /** Path of each tool, its number is its place here: `["codemode", "fs", "read"]`. */
  readonly tools: readonly (readonly string[])[];
  /** Namespaces that exist even when they hold no tool. */
  readonly namespaces: readonly string[];
  /** In the run's codec; absent is undefined. */
  readonly input?: string;
}

export interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export interface Timer {
  readonly run: () => void;
  readonly repeats: boolean;
  readonly ms: number;
  /** By the realm's clock; of a run that is saved, what is left until then. */
  due: number;
}

export interface KernelState {
  readonly p: Primordials;
  readonly emit: Emit;
  settings: RunSettings;
  closed: boolean;
  logLines: number;
  logBytes: number;
  logDropped: number;
  outputBytes: number;
  calls: number;
  readonly pending: Map<number, Pending>;
  timerCount: number;
  readonly timers: Map<number, Timer>;
  /** Ends the run with what was thrown. */
  fail: (thrown: unknown) => void;
}

/**
 * A host function that throws (a stack that ends within it) throws an error of the host's realm: the code must never
 * hold one.
 */
export function guardEmit(emit: Emit): Emit {
  return (...message) => {
    let sent = false;
    try {
      emit(...message);
      sent = true;
    } catch {
      sent = false;
    }
    if (!sent) throw new RangeError('Maximum call stack size exceeded');
  };
}

export function freezeFunction<F extends (...values: never[]) => unknown>(made: F, name: string): F {
  lockProperty(made, 'name', name);
  return Object.freeze(made);
}
