/**
 * How a run can end badly: one word for each, which programs read, beside the sentence that people read.
 *
 * `execute()` never throws for what the code did; it answers with one of these. It throws only for a fault in
 * how it was called.
 */
export const errorKinds = {
  syntax: 'the code can not be parsed, or uses what codemode does not offer (import, import.meta)',
  runtime: 'the code threw',
  serialization: 'the result, or what the code threw, can not be carried out',
  timeout: 'the run took longer than its wall time',
  cpu: 'the run used more processor time than it may',
  memory: 'the run used more memory than it may',
  aborted: 'the caller ended the run',
  'tool-limit': 'the code called more tools, or with larger arguments, than it may',
  'log-limit': 'the run wrote more than its log may hold, against the kernel that stops at the limit',
  'result-limit': 'the result is larger than it may be',
  'code-limit': 'the code is longer than it may be',
  denied: 'a tool was refused and the policy ends the run for it',
  crash: 'the engine ended by itself or broke the protocol',
  unavailable: 'the engine can not be used on this machine',
  config: 'the tools or options given to execute() contradict each other',
} as const;

export type ErrorKind = keyof typeof errorKinds;

/** A failure of ours with its kind; inside the package it travels as an exception, outside as a result. */
export class CodemodeError extends Error {
  readonly kind: ErrorKind;

  constructor(kind: ErrorKind, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = 'CodemodeError';
    this.kind = kind;
  }
}
