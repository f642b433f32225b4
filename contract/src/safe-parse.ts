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

function withoutLengths(json: unknown): unknown {
  return JSON.parse(JSON.stringify(json), (key, value: unknown) =>
    key === 'length' && typeof value === 'object' ? undefined : value,
  );
}
