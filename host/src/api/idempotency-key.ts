/** The header `Idempotency-Key`: a caller's name for one request, which he may then send again. */
import { createHash } from 'node:crypto';
import { AppError } from '@squash/contract/errors';
import type { Once } from '@squash/contract/once';
import { limits } from '@squash/contract/limits';
import type { Caller } from '../http/caller.ts';

export interface Asked {
  readonly caller: Caller;
  readonly operation: string;
  /** Everything that the request says, as it was parsed: how it was written does not count. */
  readonly asked: unknown;
}

/** Undefined where the caller did not name it. @throws invalid_request */
export function onceOf(key: string | undefined, { caller, operation, asked }: Asked): Once | undefined {
  if (key === undefined) return undefined;
  // A draft of the IETF writes it as a quoted string; most clients send it plain.
  const [, quoted, plain] = /^(?:"([\x20\x21\x23-\x7e]+)"|([\x21\x23-\x7e][\x20-\x7e]*))$/.exec(key) ?? [];
  const name = quoted ?? plain;
  if (name === undefined || name.length > limits.idempotencyKeyBytesMax) {
    throw new AppError(
      'invalid_request',
      `Idempotency-Key must be 1 to ${limits.idempotencyKeyBytesMax} characters of printable ASCII`,
    );
  }
  const digest = createHash('sha256').update(JSON.stringify(asked)).digest('hex');
  return { caller: caller.owner ?? '', key: name, operation, digest };
}
