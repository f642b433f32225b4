/** `@squash/sdk` from its sources against a real daemon: what a program in Node does with sandboxes and commands. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import {
  BadRequest,
  CommandFailed,
  NotFound,
  Sandbox,
  Squash,
  SquashError,
  Unauthorized,
  Unreachable,
  version,
} from '@squash/sdk';
import { TestDaemon } from '../support/daemon.ts';
import { freePort } from '../support/free-port.ts';

const token = 'a token of the operator';

let daemon: TestDaemon;
let squash: Squash;
before(async () => {
  daemon = await TestDaemon.start({ env: { SQUASH_AUTH_TOKEN: token.replaceAll(' ', '-') } });
  squash = new Squash({ url: daemon.url, token: token.replaceAll(' ', '-') });
});
after(async () => {
  squash.close();
  await daemon[Symbol.asyncDispose]();
});

async function caught(doing: Promise<unknown>): Promise<SquashError> {
  const error = await doing.then(
    () => assert.fail('nothing was thrown'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof SquashError, String(error));
  return error;
}

test('a sandbox is created, runs commands and is gone at the end of its block', async () => {
  let id = '';
  {
    await using box = await squash.sandboxes.create({ name: 'one', labels: { of: 'sdk' } });
    id = box.id;
    assert.equal(box.info.state, 'ready');
    const result = await box.exec('echo out; echo err >&2; exit 3');
    assert.deepEqual([result.stdout, result.stderr, result.exit_code], ['out\n', 'err\n', 3]);
    assert.throws(
      () => result.check(),
      (error: unknown) => error instanceof CommandFailed && error.result === result,
    );
    const words = await box.exec(['printf', '%s', '$HOME; a b'], { stdin: 'x', timeout_ms: 5_000 });
    assert.equal(words.check().stdout, '$HOME; a b');
    assert.deepEqual(JSON.parse(JSON.stringify(words)), { ...words });
    await box.update({ labels: { more: 'yes' } });
    assert.deepEqual(box.info.labels, { of: 'sdk', more: 'yes' });
    await using other = await box.fork({ name: 'other' });
    assert.notEqual(other.id, box.id);
  }
  const gone = await caught(squash.sandboxes.get(id));
  assert.ok(gone instanceof NotFound);
  assert.deepEqual(
    [gone.code, gone.status, gone.request],
    ['sandbox_not_found', 404, `GET /v1/sandboxes/${id}`],
  );
  assert.notEqual(gone.remedy, '');
});

test('a list goes through all pages, and what was only found stays', async () => {
  const made = await Promise.all(
    [1, 2, 3].map(async () => await squash.sandboxes.create({ labels: { page: '1' } })),
  );
  {
    await using found = await Sandbox.get(made[0]?.id ?? '', { client: squash });
    assert.equal(found.id, made[0]?.id);
  }
  const ids: string[] = [];
  for await (const box of Sandbox.list({ client: squash, label: 'page=1', limit: 1 })) ids.push(box.id);
  assert.deepEqual(ids.sort(), made.map(({ id }) => id).sort());
  for (const box of made) await box.remove();
});

test('a command runs in a sandbox of its own, of which nothing is left', async () => {
  const { stdout } = await squash.run(['uname', '-s'], { sandbox: { policy: { allow: [] } } });
  assert.equal(stdout, 'Linux\n');
  assert.equal((await squash.info()).version, version);
});

test('what is refused is an error of its kind, before or by the daemon', async () => {
  assert.ok((await caught(squash.sandboxes.create({ cpu: -1 }))) instanceof BadRequest);
  assert.ok((await caught(squash.sandboxes.get('..'))) instanceof BadRequest);
  assert.ok((await caught(new Squash({ url: daemon.url, token: 'wrong' }).info())) instanceof Unauthorized);
  const nobody = await caught(new Squash({ url: `http://127.0.0.1:${await freePort()}` }).info());
  assert.ok(nobody instanceof Unreachable);
  assert.match(nobody.message, /no daemon listens there/);
});

test('the Unix socket needs no token, and gets none of the operator', async () => {
  const local = new Squash({ url: `unix:${join(daemon.dataDir, 'run/api.sock')}`, token: 'whatever' });
  await using box = await local.sandboxes.create();
  assert.equal((await box.exec(['true'])).exit_code, 0);
  local.close();
});
