/** A context that changes while it is read: what is sent is what the step is known by. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Context, digestOf, lookedAt, tarOf, textOf } from './context.ts';

test('a file that has changed since it was looked at is not sent', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-context-'));
  try {
    for (const [name, content] of Object.entries({ one: 'same', two: 'first' }))
      writeFileSync(join(directory, name), content);
    const [source] = new Context(directory, join(directory, 'Dockerfile')).find(['.'], 1);
    const items = await lookedAt(source?.items ?? []);
    const send = async (): Promise<number> => (await Array.fromAsync(tarOf(items))).length;
    assert.ok((await send()) > 0);
    const before = digestOf(items);
    for (const other of ['other', 'longer than it was', 'less']) {
      writeFileSync(join(directory, 'two'), other);
      await assert.rejects(send(), /"two" changed while it was read/);
    }
    assert.notEqual(
      digestOf(await lookedAt(source?.items.map((item) => ({ ...item, size: 4 })) ?? [])),
      before,
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test('what a directory holds under a name that is read unasked keeps nobody waiting', () => {
  const directory = mkdtempSync(join(tmpdir(), 'squash-context-'));
  const dockerfile = join(directory, 'Dockerfile');
  try {
    symlinkSync('/dev/zero', dockerfile);
    assert.throws(() => textOf(dockerfile), /Dockerfile": it is no file/);
    execFileSync('mkfifo', [join(directory, '.dockerignore')]);
    assert.throws(() => new Context(directory, dockerfile), /dockerignore": it is no file/);
  } finally {
    rmSync(directory, { recursive: true });
  }
});
