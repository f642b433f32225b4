/**
 * What host and worker say to each other. The worker believes the host; the host believes nothing: `worker-schema.ts` checks
 * each frame that comes from a worker.
 */
import type { RunSettings } from '../kernel/state.ts';

export type EngineName = 'quickjs' | 'isolated-vm' | 'node-vm' | 'vm2';

/** What an engine is started with; the same for all runs of its process. */
export interface EngineLimits {
  readonly memoryMb: number;
  /** After its last run a worker boots no further realm. */
  readonly runs: number;
  /** Nobody outside can tell what processor time the process uses: the engine ends a run for it by itself. */
  readonly countsCpu: boolean;
}

export type HostFrame =
  | { readonly t: 'hello'; readonly v: number; readonly engine: EngineName; readonly limits: EngineLimits }
  | {
      readonly t: 'run';
      readonly id: string;
      readonly nonce: string;
      readonly source: string;
      readonly settings: RunSettings;
      readonly cpuMs: number;
    }
  /** `text` absent is undefined; with `ok: false` it is `[name, message]`. */
  | {
      readonly t: 'tool';
      readonly id: string;
      readonly call: number;
      readonly ok: boolean;
      readonly text?: string;
    }
  | { readonly t: 'suspend'; readonly id: string }
  | {
      readonly t: 'resume';
      readonly id: string;
      readonly nonce: string;
      readonly snapshot: string;
      readonly cpuMs: number;
    };

export interface WorkerError {
  readonly kind: 'runtime' | 'serialization' | 'result-limit' | 'syntax' | 'memory' | 'crash' | 'cpu';
  readonly name: string;
  readonly message: string;
  readonly stack?: string | undefined;
}

export type WorkerFrame =
  /** An engine with a booted kernel waits. */
  | { readonly t: 'ready'; readonly v: number; readonly engine: string }
  | {
      readonly t: 'call';
      readonly nonce: string;
      readonly call: number;
      readonly tool: number;
      readonly text: string;
    }
  | { readonly t: 'log'; readonly nonce: string; readonly level: string; readonly text: string }
  | { readonly t: 'out'; readonly nonce: string; readonly block: string }
  | { readonly t: 'unhandled'; readonly nonce: string; readonly text: string }
  | {
      readonly t: 'done';
      readonly nonce: string;
      readonly ok: boolean;
      readonly text?: string | undefined;
      readonly error?: WorkerError | undefined;
      readonly dropped: number;
    }
  | { readonly t: 'snapshot'; readonly nonce: string; readonly bytes: string }
  | { readonly t: 'fatal'; readonly message: string };
