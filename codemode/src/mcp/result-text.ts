/** A result as text for a model's context: bounded, and cut where a reader can tell that it was. */
import type { ExecuteResult } from '../types.ts';

/** About six thousand tokens. */
const charsMax = 24_000;
const mark = '--- TRUNCATED ---';

export function resultText(result: ExecuteResult): string {
  const parts = [
    result.errorInfo === undefined
      ? cut(JSON.stringify(result.result, null, 1) ?? 'undefined')
      : `${result.errorInfo.kind} error: ${result.errorInfo.stack ?? result.error}`,
    ...(result.logs === undefined ? [] : [`Console output:\n${cut(result.logs.join('\n'))}`]),
    ...(result.warnings ?? []).map((warning) => `Warning: ${warning}`),
  ];
  return parts.join('\n\n');
}

function cut(text: string): string {
  if (text.length <= charsMax) return text;
  return `${text.slice(0, charsMax)}\n${mark} ${text.length - charsMax} more characters`;
}
