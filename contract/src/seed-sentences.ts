/**
 * The original's error sentences, word for word: clients of `/cgi-bin` compare them. A code without a row
 * answers its own message. No sentence ends with a newline (the original's shell version adds one).
 */
import type { AppError, ErrorCode } from './errors.ts';

/** What a sentence may name; each is known only where the request or the error says it. */
export interface SentenceSubject {
  readonly sandbox?: string | undefined;
  readonly module?: string | undefined;
  readonly label?: string | undefined;
  readonly job?: string | undefined;
  readonly sandboxesMax?: number | undefined;
}

const sentences: Partial<Record<ErrorCode, (subject: SentenceSubject) => string>> = {
  unauthorized: () => 'unauthorized',
  method_not_allowed: () => 'method not allowed',
  body_too_large: () => 'request body too large',
  unsupported_media_type: () => 'expected Content-Type: application/json',
  invalid_json: () => 'invalid JSON body',
  sandbox_not_found: ({ sandbox = '' }) => `not found: ${sandbox}`,
  sandbox_exists: ({ sandbox = '' }) => `already exists: ${sandbox}`,
  sandbox_limit: ({ sandboxesMax = 0 }) => `sandbox limit reached (${sandboxesMax})`,
  sandbox_not_ready: () => 'not mounted',
  module_not_found: ({ module = '' }) => `module not found: ${module}`,
  module_active: ({ module = '' }) => `already active: ${module}`,
  snapshot_exists: ({ label = '' }) => `exists: ${label}`,
  snapshot_not_found: ({ label = '' }) => `not found: ${label}`,
  job_not_found: ({ job = '' }) => `job not found: ${job}`,
};

const subjectOf: Partial<Record<ErrorCode, keyof SentenceSubject>> = {
  sandbox_not_found: 'sandbox',
  sandbox_exists: 'sandbox',
  module_not_found: 'module',
  module_active: 'module',
  snapshot_exists: 'label',
  snapshot_not_found: 'label',
  job_not_found: 'job',
};

export function seedSentence(error: AppError, request: SentenceSubject): string {
  const sentence = sentences[error.code];
  if (sentence === undefined) return error.message;
  const key = subjectOf[error.code];
  if (key === undefined) return sentence(request);
  const named = error.subject ?? request[key];
  return sentence(typeof named === 'string' ? { ...request, [key]: printable(named) } : request);
}

/** A name of a request may hold any character; an answer's stays on its line. */
function printable(name: string): string {
  return name.replace(
    /\p{Cc}/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
