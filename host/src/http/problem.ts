/**
 * An error as a client sees it, in the two spellings: the original's `{"error", "code"}` and RFC 9457.
 */
import { AppError, type Dialect, errorCatalog, errorStatus } from '@squash/contract/errors';
import { type SentenceSubject, seedSentence } from '@squash/contract/seed-sentences';

export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What is not an `AppError` is a fault of ours: the client learns no more than that, the log everything. */
export function asAppError(error: unknown): AppError {
  if (error instanceof AppError) return error;
  return new AppError('internal', 'A fault in Squash itself; the daemon’s log has the details', {
    cause: error,
  });
}

/** Addresses under `/cgi-bin` speak as the original does. */
export function dialectOf(path: string): Dialect {
  return path === '/cgi-bin' || path.startsWith('/cgi-bin/') ? 'seed' : 'native';
}

export function errorAnswer(error: AppError, dialect: Dialect, subject: SentenceSubject = {}): ErrorAnswer {
  const status = errorStatus(error.code, dialect);
  const headers: Record<string, string> = {
    'content-type': dialect === 'seed' ? 'application/json' : 'application/problem+json',
    'cache-control': 'no-store',
  };
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  if (error.code === 'upgrade_required') headers['upgrade'] = 'websocket';
  if (error.code === 'range_not_satisfiable') headers['content-range'] = `bytes */${error.subject ?? '*'}`;
  if (errorCatalog[error.code].retry === 'later') headers['retry-after'] = '1';
  const body =
    dialect === 'seed'
      ? { error: seedSentence(error, subject), code: error.code }
      : {
          type: 'about:blank',
          title: errorCatalog[error.code].summary,
          status,
          detail: error.message,
          code: error.code,
          remedy: errorCatalog[error.code].remedy,
        };
  return { status, headers, body: JSON.stringify(body) };
}
