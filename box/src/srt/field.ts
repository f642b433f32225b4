/**
 * What becomes of a field of another system's settings. Each field has a row in one table: `mapped`, also where it means something
 * slightly different here, `idle` where it does nothing on Linux there either, or `refused`.
 */
import type { z } from 'zod';

interface FieldBase {
  readonly shape: z.ZodType;
  /** Told where the field is set. Of one that means the same here there is nothing to tell. */
  readonly note?: string;
}

export type Field =
  | (FieldBase & { readonly fate: 'mapped' })
  | (FieldBase & { readonly fate: 'idle'; readonly note: string })
  | (FieldBase & {
      readonly fate: 'refused';
      readonly note: string;
      /** A value that asks for nothing. */
      readonly isHarmless?: (value: unknown) => boolean;
    });

export type Fields = Readonly<Record<string, Field>>;

/** The fields' shapes, for a schema of the whole section. */
export function shapesOf<Table extends Fields>(
  table: Table,
): { readonly [Name in keyof Table]: Table[Name]['shape'] } {
  return Object.fromEntries(Object.entries(table).map(([name, { shape }]) => [name, shape])) as {
    [Name in keyof Table]: Table[Name]['shape'];
  };
}

export interface FieldNote {
  /** As it stands in the settings, `network.allowedDomains`. */
  readonly field: string;
  readonly text: string;
}

/** What a reader of settings has to tell. */
export interface Told {
  readonly notes: FieldNote[];
  readonly refused: FieldNote[];
}

/** What the rows themselves say of the fields that are set. */
export function tellFields(
  table: Fields,
  { prefix, values }: { readonly prefix: string; readonly values: object },
  told: Told,
): void {
  const section = values as Readonly<Record<string, unknown>>;
  for (const [name, field] of Object.entries(table)) {
    const value = section[name];
    const isNothing = value === undefined || (Array.isArray(value) && value.length === 0);
    if (isNothing || field.note === undefined) continue;
    const line = { field: `${prefix}${name}`, text: field.note };
    if (field.fate !== 'refused') told.notes.push(line);
    else if (field.isHarmless?.(value) !== true) told.refused.push(line);
  }
}
