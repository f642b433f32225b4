/** The surface holds all that the contract has. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { operations } from './operations.gen.ts';

test('every operation of /v1 that is no WebSocket is called by a method that names it', () => {
  const sources = readdirSync(import.meta.dirname)
    .filter((name) => name.endsWith('.ts') && !/\.(?:gen|test)\.ts$/.test(name))
    .map((name) => readFileSync(join(import.meta.dirname, name), 'utf8'))
    .join('\n');
  const ids = Object.keys(operations);
  assert.ok(ids.length > 80);
  assert.deepEqual(
    ids.filter((id) => !sources.includes(`'${id}'`) || !sources.includes(`\`${id}\``)),
    [],
  );
});
