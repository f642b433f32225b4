/**
 * `schema.safeParse` for JSON of strangers, which it never throws for. zod 4.6 compares the `length` of whatever stands where a
 * text or a list belongs, also where it has found that it is none: `{"length": {"toString": false}}` can't be compared.
 */
import type { z } from 'zod';

/** As the schema's own. */
export function safeParse<T extends z.ZodType>(
  schema: T,
  json: unknown,
  options?: Parameters<T['safeParse']>[1],
): z.ZodSafeParseResult<z.output<T>> {
  try {
    return schema.safeParse(json, options);
  } catch {
    // Without it the object is as wrong as with it, and zod can say so.
    return schema.safeParse(withoutLengths(json), options);
  }
}

/** No schema looks deeper; what a stranger nests a hundred thousand times would take the whole stack. */
const levels = 64;

function withoutLengths(json: unknown, level = 0): unknown {
  if (typeof json !== 'object' || json === null || level === levels) return json;
  if (Array.isArray(json)) return json.map((each) => withoutLengths(each, level + 1));
  return Object.fromEntries(
    Object.entries(json)
      .filter(([key, value]) => key !== 'length' || typeof value !== 'object')
      .map(([key, value]) => [key, withoutLengths(value, level + 1)]),
  );
}
