/** What the description keeps of the contract where zod's own conversion would lose it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openapiDocument } from './document.ts';
import { shapes } from './shapes.ts';

interface Described {
  readonly components: { readonly schemas: Readonly<Record<string, Readonly<Record<string, unknown>>>> };
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { readonly parameters: readonly Parameter[] }>>>
  >;
}
interface Parameter {
  readonly name: string;
  readonly schema: unknown;
}

const { components, paths } = openapiDocument() as unknown as Described;

for (const [name, { example }] of Object.entries(shapes)) {
  if (example === undefined) continue;
  test(`the shape ${name} has its example in the description`, () => {
    assert.deepEqual(components.schemas[name]?.['examples'], [example]);
  });
}

test('a default of a shape is described where the shape changes what it reads', () => {
  const properties = components.schemas['PolicyTest']?.['properties'] as
    | Readonly<Record<string, unknown>>
    | undefined;
  assert.deepEqual(properties?.['method'], {
    type: 'string',
    pattern: '^[A-Za-z][A-Za-z-]{0,31}$',
    default: 'GET',
  });
});

test('numbers and flags of a query are described as such', () => {
  const parameters = paths['/v1/sandboxes/{id}/egress']?.['get']?.parameters ?? [];
  const schemas = Object.fromEntries(parameters.map(({ name, schema }) => [name, schema]));
  assert.deepEqual(schemas['limit'], { type: 'integer', minimum: 1, maximum: 1_000 });
  assert.deepEqual(schemas['follow'], { type: 'boolean' });
});
