/** JSON Schema from zod's, with the shapes that have a name kept apart: each is written once, and everything else refers to it. */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';

export type Json = Readonly<Record<string, unknown>>;

export class NamedSchemas {
  readonly #named = new Map<string, Json>();

  /** `input`: what a client may send, before defaults and tolerance are applied. */
  of(schema: z.ZodType, io: 'input' | 'output'): Json {
    const {
      $schema: _dialect,
      $defs,
      ...rest
    } = z.toJSONSchema(schema, { io, unrepresentable: 'any', override });
    for (const [name, shape] of Object.entries($defs ?? {})) this.#put(name, shape);
    const { id: name, ...shape } = referringToComponents(rest);
    if (typeof name !== 'string') return shape;
    this.#put(name, shape);
    return { $ref: `#/components/schemas/${name}` };
  }

  add(name: string, schema: z.ZodType): void {
    this.#put(name, this.of(schema, 'output'));
  }

  all(): Json {
    return Object.fromEntries([...this.#named].sort(([one], [other]) => (one < other ? -1 : 1)));
  }

  #put(name: string, shape: Json): void {
    const { id: _name, ...rest } = referringToComponents(shape);
    const known = this.#named.get(name);
    if (known !== undefined && !isDeepStrictEqual(known, rest)) {
      throw new Error(`two shapes are called "${name}": what is sent and what is answered differ`);
    }
    this.#named.set(name, rest);
  }
}

/** A schema by itself, as a client may send it, with its named shapes beside it, and without formats that only zod knows. */
export function sentForm(schema: z.ZodType): Json {
  const plain: Override = (context) => {
    override(context);
    if (['starts_with', 'base64'].includes(context.jsonSchema.format ?? '')) delete context.jsonSchema.format;
  };
  return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', override: plain });
}

/** zod keeps named shapes beside the schema, OpenAPI in one place for all. */
function referringToComponents(schema: Json): Json {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/')) as Json;
}

type Override = NonNullable<z.core.ToJSONSchemaParams['override']>;

/**
 * Of a schema that changes what it reads, zod leaves out examples and defaults where the input is described, because they
 * could be the output's. Ours are what a client would send: examples are written so, and a default counts where it may be sent.
 * And what is text on the wire but a number or a flag to whoever writes it (`query.ts`) has that type alone.
 */
const override: Override = ({ zodSchema, jsonSchema }) => {
  const { examples, type } = z.globalRegistry.get(zodSchema) ?? {};
  if (Array.isArray(examples)) jsonSchema.examples = examples;
  const { def } = zodSchema._zod;
  if (def.type === 'default' && z.safeParse(def.innerType, def.defaultValue).success) {
    jsonSchema.default = def.defaultValue as typeof jsonSchema.default;
  }
  if (type !== undefined) {
    delete jsonSchema.pattern;
    delete jsonSchema.enum;
  }
};
