/** What a request's head may not say, whoever sends it. */
import type { IncomingMessage } from 'node:http';
import { AppError } from '@squash/contract/errors';

export function malformed(incoming: IncomingMessage): AppError | undefined {
  const { url = '', headers, headersDistinct, httpVersion } = incoming;
  const refused = (sentence: string): AppError => new AppError('invalid_request', sentence);
  if (!url.startsWith('/')) return refused('the request target must be a path');
  const [path = ''] = url.split('?', 1);
  if (dotSegment.test(path)) return refused('the path has a segment "." or ".."');
  if (headers.host === undefined && httpVersion === '1.1') return refused('the request names no Host');
  // Node takes the first of several; a proxy before us may have gone by another.
  if ((headersDistinct['host']?.length ?? 0) > 1) return refused('the request names more than one Host');
  if (/^100-continue$/i.test(headers.expect ?? '100-continue')) return undefined;
  return refused('Expect: 100-continue is all that can be asked for');
}

/**
 * URL parsers resolve these, encoded ones too: a client that puts ".." where a job's number belongs would reach
 * the sandbox above it.
 */
const dotSegment = /(^|[/\\])(\.|%2e){1,2}([/\\#]|$)/i;
