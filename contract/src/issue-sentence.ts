/**
 * What zod finds by itself, in a sentence that names the place: `allow[0].ports must be a list`. For `safeParse`'s option
 * `error`, which is asked only where the schema has no sentence of its own; those name their place themselves.
 */
import type { z } from 'zod';

type Issue = Parameters<z.core.$ZodErrorMap>[0];

/** `undefined` leaves zod's own words. */
export function issueSentence(issue: Issue): string | undefined {
  const place = placeOf(issue.path);
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return `${place} is missing`;
      return `${place} must be ${typeNames[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return `${place} must be ${oneOf(issue.values)}`;
    case 'invalid_union':
      return 'options' in issue && Array.isArray(issue.options)
        ? `${place} must be ${oneOf(issue.options)}`
        : undefined;
    case 'unrecognized_keys': {
      const within = issue.path === undefined || issue.path.length === 0 ? '' : `${place}: `;
      return `${within}${issue.keys.map((key) => JSON.stringify(key.slice(0, 64))).join(', ')} is unknown`;
    }
    case 'too_small':
      return `${place} must ${amount(issue.origin, 'at least', issue.minimum)}`;
    case 'too_big':
      return `${place} must ${amount(issue.origin, 'at most', issue.maximum)}`;
    case 'invalid_key':
      // The key's own schema has said it.
      return `${place}: ${issue.issues[0]?.message ?? 'is no name that can stand here'}`;
    case 'custom':
    case 'invalid_element':
    case 'invalid_format':
    case 'not_multiple_of':
      return undefined;
  }
}

const typeNames: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

function oneOf(values: readonly unknown[]): string {
  return values.map((value) => JSON.stringify(value)).join(' or ');
}

/** `allow[0].ports`. */
export function placeOf(path: readonly PropertyKey[] | undefined): string {
  const words = (path ?? []).map((part, at) =>
    typeof part === 'number' ? `[${part}]` : `${at === 0 ? '' : '.'}${String(part).slice(0, 64)}`,
  );
  return words.length === 0 ? 'the request' : words.join('');
}

function amount(origin: string, bound: string, count: number | bigint): string {
  switch (origin) {
    case 'string':
      return `have ${bound} ${count} characters`;
    case 'array':
    case 'set':
      return `have ${bound} ${count} ${count === 1 ? 'entry' : 'entries'}`;
    default:
      return `be ${bound} ${count}`;
  }
}
