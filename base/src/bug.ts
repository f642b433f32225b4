/**
 * For what can't happen: a `BugError` is a fault in Squash, never something the world did (that is `AppError`).
 */
export class BugError extends Error {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = 'BugError';
  }
}

/** @throws BugError when the condition does not hold */
export function bug(condition: boolean, message: string): asserts condition {
  if (!condition) throw new BugError(message);
}

/** The value, where the caller knows that it is there. @throws BugError */
export function known<T>(value: T | undefined | null, what: string): T {
  if (value === undefined || value === null) throw new BugError(`${what} is missing`);
  return value;
}

/** Text of anything thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
