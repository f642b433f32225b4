/** Tokens where none may be. */
import type { IncomingMessage } from 'node:http';
import { AppError } from '@squash/contract/errors';
import { keyTokenPattern } from '@squash/contract/key-token';

/** A key in an address ends up in histories and logs; and of two tokens a proxy before us may have gone by the other. */
export function misplacedToken({ url = '', headersDistinct }: IncomingMessage): AppError | undefined {
  if (keyTokenPattern.test(url)) {
    return new AppError(
      'unauthorized',
      'There is a key in the address: send it as Authorization: Bearer, and replace this one, which others may have read',
    );
  }
  if ((headersDistinct['authorization']?.length ?? 0) <= 1) return undefined;
  return new AppError('unauthorized', 'The request brings more than one Authorization: send one');
}
