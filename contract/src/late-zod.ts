/**
 * zod, with schemas that are made when they are first used: in the built daemon and egress process it takes zod's place, see
 * `lateSchemas` in tools/setup/build-programs.ts.
 *
 * They name three thousand schemas, and making them took a third of the time of loading; a start and its first requests use
 * some hundred. Here a schema is what was said about it, until it is asked for anything but a further schema.
 */
import { z as zod } from 'zod';

type Functions = Readonly<Record<string, (...words: readonly unknown[]) => object>>;

/** What makes a schema of other words and schemas, and does nothing else. */
const makers = [
  'array',
  'boolean',
  'custom',
  'discriminatedUnion',
  'enum',
  'int',
  'json',
  'literal',
  'looseObject',
  'null',
  'number',
  'object',
  'record',
  'strictObject',
  'string',
  'tuple',
  'union',
  'unknown',
] as const satisfies readonly (keyof typeof zod)[];

/** What makes a schema of another one. */
const further = new Set<PropertyKey>([
  'array',
  'catch',
  'check',
  'default',
  'describe',
  'exactOptional',
  'extend',
  'gt',
  'gte',
  'int',
  'length',
  'loose',
  'lt',
  'lte',
  'max',
  'meta',
  'min',
  'nonnegative',
  'nullable',
  'nullish',
  'omit',
  'optional',
  'or',
  'partial',
  'pick',
  'pipe',
  'positive',
  'prefault',
  'readonly',
  'refine',
  'regex',
  'startsWith',
  'strict',
  'superRefine',
  'transform',
]);

/** Asked of a schema, it tells the one behind it. */
const self = Symbol('late schema');

class LateSchema {
  #make: (() => object) | undefined;
  #made: object | undefined;

  constructor(make: () => object) {
    this.#make = make;
  }

  get made(): object {
    if (this.#made === undefined) {
      this.#made = this.#make?.() ?? {};
      // It holds what the schema was made of.
      this.#make = undefined;
    }
    return this.#made;
  }
}

const handler: ProxyHandler<LateSchema> = {
  get(late, name) {
    if (name === self) return late;
    if (further.has(name))
      return (...words: readonly unknown[]) =>
        put(() => (late.made as Functions)[name as string]?.(...words.map(known)) ?? {});
    const value: unknown = Reflect.get(late.made, name);
    return typeof value === 'function' ? value.bind(late.made) : value;
  },
  has: (late, name) => Reflect.has(late.made, name),
  set: (late, name, value) => Reflect.set(late.made, name, value),
  getPrototypeOf: (late) => Reflect.getPrototypeOf(late.made),
};

function put(make: () => object): object {
  return new Proxy(new LateSchema(make), handler);
}

/** Made schemas in place of late ones, also where they lie in a list or in an object of fields: zod's own way to them is shorter then. */
function known(word: unknown): unknown {
  if (Array.isArray(word)) return word.map(schemaOf);
  if (typeof word !== 'object' || word === null) return word;
  const schema = schemaOf(word);
  if (schema !== word || Object.getPrototypeOf(word) !== Object.prototype) return schema;
  return Object.fromEntries(Object.entries(word).map(([name, value]) => [name, schemaOf(value)]));
}

function schemaOf(word: unknown): unknown {
  if (typeof word !== 'object' || word === null) return word;
  const late: unknown = Reflect.get(word, self);
  return late instanceof LateSchema ? late.made : word;
}

const made = Object.fromEntries(
  makers.map((name) => {
    const make = (zod as unknown as Functions)[name];
    return [name, (...words: readonly unknown[]) => put(() => make?.(...words.map(known)) ?? {})];
  }),
);

// What zod has beside them is told by zod.
export const z = Object.create(zod, Object.getOwnPropertyDescriptors(made)) as typeof zod;
