/** A sandbox's own secrets, as its commands see them: from when they are kept until they are forgotten. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { sandboxIdSchema } from '@squash/contract/ids';
import { keptLog } from '../../../tests/support/kept-log.ts';
import { OwnSecretsKeeper } from './own-secrets-keeper.ts';

const id = sandboxIdSchema.parse('box');
const own = { TOKEN: { value: 'real-value-0123', allowed_hosts: ['a.example'] } };

async function place() {
  const directory = await mkdtemp(join(tmpdir(), 'squash-own-secrets-'));
  const { log, lines } = keptLog('info');
  return {
    directory,
    lines,
    keeper: new OwnSecretsKeeper(directory, log),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true }),
  };
}

test('secrets that were asked for too early or too late are not missing from the next sandbox of the id', async () => {
  await using at = await place();
  assert.deepEqual(at.keeper.placeholders(id), {});
  await at.keeper.keep(id, own);
  const first = at.keeper.placeholders(id);
  assert.deepEqual(Object.keys(first), ['TOKEN']);
  at.keeper.forget(id);
  assert.deepEqual(at.keeper.placeholders(id), {});
  await at.keeper.keep(id, own);
  assert.match(at.keeper.placeholders(id)['TOKEN'] ?? '', /^squash-/);
  assert.notDeepEqual(at.keeper.placeholders(id), first);
});

test('a file in the place of the folder ends no start, and is told', async () => {
  await using at = await place();
  await writeFile(join(at.directory, 'secrets'), '');
  at.keeper.sweep(new Map());
  assert.match(JSON.stringify(at.lines), /secrets\.folder.*ENOTDIR/);
});
