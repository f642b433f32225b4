/** The contract with schemas that are made late is the contract. */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { Script } from 'node:vm';
import type { Operation } from '@squash/contract/operations/operation';
import { operations } from '@squash/contract/operations/table';
import { build } from 'esbuild';
import { z } from 'zod';
import { lateZod } from './late-zod.ts';

const root = join(import.meta.dirname, '../..');

interface Late {
  readonly operations: typeof operations;
  readonly z: typeof z;
}

async function late(): Promise<Late> {
  const result = await build({
    stdin: {
      contents: `export { operations } from './contract/src/operations/table.ts'; export { z } from 'zod';`,
      resolveDir: root,
      sourcefile: join(root, 'entry.ts'),
      loader: 'ts',
    },
    absWorkingDir: root,
    bundle: true,
    write: false,
    platform: 'node',
    format: 'cjs',
    plugins: [lateZod],
  });
  const program = { exports: {} };
  const code = `(function(require,module){${result.outputFiles[0]?.text ?? ''}\n})`;
  new Script(code).runInThisContext()(createRequire(import.meta.url), program);
  return program.exports as Late;
}

/** As data: what each part of a request and of an answer may be. */
function shapes(
  table: typeof operations,
  { object, toJSONSchema }: typeof z,
): Readonly<Record<string, unknown>> {
  const asData = (schema: z.ZodType | undefined, io: 'input' | 'output'): unknown =>
    schema === undefined ? undefined : toJSONSchema(object({ schema }), { io, unrepresentable: 'any' });
  return Object.fromEntries(
    Object.values(table as Readonly<Record<string, Operation>>).map(
      ({ id, params, query, body, answers, events }) => [
        id,
        {
          parts: [params, query, body].map((part) => asData(part, 'input')),
          answers: answers.map(({ schema }) => asData(schema, 'output')),
          events: Object.entries(events ?? {}).map(([name, schema]) => [name, asData(schema, 'output')]),
        },
      ],
    ),
  );
}

const { operations: lateOperations, z: lateZ } = await late();

test('every operation asks and answers the same', () => {
  const expected = shapes(operations, z);
  assert.ok(Object.keys(expected).length > 100);
  assert.deepEqual(
    JSON.parse(JSON.stringify(shapes(lateOperations, lateZ))),
    JSON.parse(JSON.stringify(expected)),
  );
});

test('what is wrong with a request is said in the same words', () => {
  for (const body of [
    {},
    { from: 1 },
    { labels: { a: 1 } },
    { memory_mb: -1 },
    { from: { host: { view: [] } } },
    1,
  ]) {
    const told = (table: typeof operations): unknown => {
      const { success, data, error } = table['sandbox.create'].body.safeParse(body);
      return { success, data, issues: error?.issues };
    };
    assert.deepEqual(told(lateOperations), told(operations));
  }
});

test('a schema is made when it is used, once', () => {
  let made = 0;
  const schema = lateZ
    .strictObject({
      get name() {
        made += 1;
        return lateZ.string();
      },
    })
    .optional();
  assert.equal(made, 0);
  for (let turn = 0; turn < 3; turn += 1) assert.deepEqual(schema.parse({ name: 'a' }), { name: 'a' });
  assert.throws(() => schema.parse({ name: 1 }), lateZ.ZodError);
  assert.equal(made, 1);
});
