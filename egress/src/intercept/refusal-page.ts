/**
 * The answer to a request that does not go out: says which rule refused it, in the form the program reads.
 *
 * Everything in it that the program sent is escaped: a page in a browser must not run what stood in a path.
 */
import type { AnswerHead } from './message.ts';
import { tokens } from './headers.ts';

export interface Refusal {
  readonly status: 400 | 403 | 502;
  /** `denied`, `placeholder_elsewhere`, `host_mismatch` … for programs. */
  readonly code: string;
  /** What was refused, for people, without a full stop. */
  readonly message: string;
  /** The rule that decided, as it can be found in the policy; undefined where it was not a rule. */
  readonly rule?: string;
  /** What would mend it. */
  readonly advice?: string;
}

export interface RefusalPage {
  readonly head: AnswerHead;
  readonly body: Buffer;
}

/** @param accept the request's `Accept` */
export function refusalPage(refusal: Refusal, accept: string): RefusalPage {
  const { type, text } = render(refusal, accept);
  const body = Buffer.from(text);
  return {
    head: {
      status: refusal.status,
      reason: { 400: 'Bad Request', 403: 'Forbidden', 502: 'Bad Gateway' }[refusal.status],
      headers: [
        'content-type',
        `${type}; charset=utf-8`,
        'content-length',
        String(body.length),
        'cache-control',
        'no-store',
        'x-squash-egress',
        refusal.code,
      ],
      hasBody: true,
    },
    body,
  };
}

function render(refusal: Refusal, accept: string): { type: string; text: string } {
  const lines = [
    `Squash: ${refusal.message}.`,
    ...(refusal.rule === undefined ? [] : [`Rule: ${refusal.rule}`]),
    ...(refusal.advice === undefined ? [] : [refusal.advice]),
  ];
  const wanted = tokens(accept).map((type) => type.split(';')[0] ?? '');
  if (wanted.some((type) => type === 'application/json' || type.endsWith('+json'))) {
    const { code, message, rule, advice } = refusal;
    return {
      type: 'application/json',
      text: `${JSON.stringify({ error: { code, message, rule, advice } })}\n`,
    };
  }
  if (!wanted.includes('text/html')) return { type: 'text/plain', text: `${lines.join('\n')}\n` };
  const paragraphs = lines.map((line) => `<p>${escapeHtml(line)}</p>`).join('\n');
  const text = `<!doctype html>\n<meta charset="utf-8">\n<title>Squash: ${refusal.status}</title>\n${paragraphs}\n`;
  return { type: 'text/html', text };
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
