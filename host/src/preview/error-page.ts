/**
 * What a preview answers by itself: a page for whoever asks with a browser, a problem (RFC 9457) for programs. Nothing in it
 * comes from a sandbox but what stands escaped in the error's message.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { type AppError, errorCatalog, type ErrorCode } from '@squash/contract/errors';
import { errorAnswer } from '../http/problem.ts';

interface Page {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What passes by itself, so that the page looks again: a server that is being started, a sandbox that is. */
const passing: ReadonlySet<ErrorCode> = new Set(['port_unreachable', 'sandbox_not_ready', 'sandbox_busy']);

export function errorPage(error: AppError, headers: IncomingHttpHeaders): Page {
  const answer = errorAnswer(error, 'native');
  if (!wantsHtml(headers)) return answer;
  const title = escaped(errorCatalog[error.code].summary);
  const again = passing.has(error.code) ? '<meta http-equiv="refresh" content="2">' : '';
  const body = `<!doctype html>
<html lang="en"><head><meta charset="utf-8">${again}<title>${title}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:15vh auto;padding:0 1em}code{color:#666}</style>
</head><body><h1>${title}</h1><p>${escaped(error.message)}</p><p><code>${error.code}</code></p></body></html>
`;
  return {
    status: answer.status,
    headers: {
      ...answer.headers,
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
    },
    body,
  };
}

/** Browsers name it; `*` alone is what programs send. */
export function wantsHtml({ accept }: IncomingHttpHeaders): boolean {
  return /(^|,)\s*text\/html\s*(;|,|$)/i.test(accept ?? '');
}

function escaped(text: string): string {
  const names: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text.replaceAll(/[&<>"]/g, (character) => names[character] ?? '');
}
