/** Labels and variables as words: `--label k=v`, and how they are shown. */
import { usageFailure } from './failure.ts';
import type { Flags } from './arguments.ts';

/** `k=v` for each; of a daemon without labels nothing. */
export function labelWords(labels: Readonly<Record<string, string>> | undefined): string {
  return Object.entries(labels ?? {})
    .map(([key, value]) => (value === '' ? key : `${key}=${value}`))
    .join(', ');
}

/** `KEY=VALUE`, or `KEY` with an empty value. */
export function labelsOf(flags: Flags): Record<string, string> {
  return Object.fromEntries(flags.list('label').map(splitWord));
}

/** As above; `KEY-` takes one away. */
export function labelChangesOf(words: readonly string[]): Record<string, string | null> {
  return Object.fromEntries(
    words.map((word) => (/^[^=]*-$/.test(word) ? [word.slice(0, -1), null] : splitWord(word))),
  );
}

function splitWord(word: string): [string, string] {
  const at = word.indexOf('=');
  if (at === 0 || word === '') throw usageFailure(`"${word}" is no label: KEY=VALUE or KEY`);
  return at < 0 ? [word, ''] : [word.slice(0, at), word.slice(at + 1)];
}
