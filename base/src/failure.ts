/**
 * A failure that no client gets to see as it is: the cause inside an `AppError`, the reason for which a socket is
 * destroyed, a breach of the protocol by a peer. What reaches a client is an `AppError` with a code of the contract's
 * catalogue; a fault of our own code is a `BugError`.
 */
export class Failure extends Error {
  /** A short word in snake case for logs and conditions, or the system's own (`ETIMEDOUT`) where it stands for that. */
  readonly code: string;

  constructor(code: string, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = 'Failure';
    this.code = code;
  }
}

/** Anything thrown as an error: other people's code may throw what is none. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Failure('no_error', String(thrown));
}
