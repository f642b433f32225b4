/**
 * Where an engine's process runs. A place starts it, hands over the two ends of its protocol, and ends it; what is said there is not
 * its business.
 */
import type { Readable, Writable } from 'node:stream';

export interface PlacedWorker {
  readonly input: Writable;
  readonly output: Readable;
  /** Idempotent; `exited` tells when it is really gone. */
  kill(): void;
  readonly exited: Promise<Exit>;
  /** The end of what it wrote to standard error: reasons of the engine, never the code's own output. */
  diagnostics(): string;
  /** Processor time so far; undefined where the place can't tell. */
  cpuMs(): number | undefined;
  /** Sets the operating system's limit on what the process may hold beyond what it holds now. */
  limitMemory(moreMb: number): Promise<void>;
  /** Whether waiting for it keeps this program running. */
  hold(held: boolean): void;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
  /** The operating system or the engine ended it for the memory it used. */
  readonly outOfMemory: boolean;
}

/** Of a process that SIGKILL ended, as shells and container engines report it. Where nobody here sent it, the kernel did, for memory. */
export const killedCode = 137;

export interface Place {
  /** @throws CodemodeError of kind `unavailable` */
  start(): Promise<PlacedWorker>;
  /** What the worker is told to speak through. */
  dispose?(): Promise<void>;
}
