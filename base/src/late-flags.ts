/**
 * Settings of V8 that are made when a program is up. V8 takes compiled code only from a process with its own settings, and Node's own modules
 * lie compiled in Node: with one more at the start each is compiled anew, some 60 ms of a processor in the daemon.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** As Node's `--expose-gc`. */
export function exposeCollection(): void {
  if (globalThis.gc !== undefined) return;
  setFlagsFromString('--expose-gc');
  globalThis.gc = runInNewContext('gc') as NonNullable<typeof globalThis.gc>;
  // What is loaded from here on fits again.
  setFlagsFromString('--no-expose-gc');
}

/** How far the heap may grow between two collections of all of it. */
export function letHeapGrow(percent: number): void {
  setFlagsFromString(`--heap-growing-percent=${percent}`);
}
