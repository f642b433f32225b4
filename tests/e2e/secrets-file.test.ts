/**
 * `secrets.json` as an operator meets it: what refuses a start and with which words, what an edit does while the daemon
 * runs, and what a bad one leaves as it was.
 */
import assert from 'node:assert/strict';
import { chmod, chown, mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { TestDaemon } from '../support/daemon.ts';
import { processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';

const value = 'sk-real-value-0123456789';
const secret = { placeholder: 'sk-placeholder-0123', value, allowed_hosts: ['api.example'] };
const good = JSON.stringify({ secrets: { API_KEY: secret } });

describe('secrets.json', () => {
  let daemon: TestDaemon;
  let path: string;
  let owner: { readonly uid: number; readonly gid: number };

  before(async () => {
    daemon = await TestDaemon.start();
    path = join(daemon.dataDir, 'secrets.json');
    owner = await stat(join(daemon.dataDir, 'squash.db'));
    await daemon.call('POST', '/cgi-bin/api/sandboxes', { id: 'box' });
  });
  after(() => daemon[Symbol.asyncDispose]());

  const put = async (text: string, mode = 0o600): Promise<void> => {
    await writeFile(`${path}.new`, text, { mode });
    await chmod(`${path}.new`, mode);
    await chown(`${path}.new`, owner.uid, owner.gid);
    await rename(`${path}.new`, path);
  };
  const placeholder = async (): Promise<string> =>
    (await daemon.call('POST', '/cgi-bin/api/sandboxes/box/exec', { cmd: 'echo $API_KEY' })).stdout.trim();
  const egressLog = (): Promise<string> => readFile(join(daemon.dataDir, 'log/egress.log'), 'utf8');

  const unusable: readonly (readonly [what: string, make: () => Promise<void>, why: RegExp])[] = [
    ['others can read it', () => put(good, 0o640), /can be read or written by others: chmod 600 it/],
    ['others can write it', () => put(good, 0o602), /can be read or written by others: chmod 600 it/],
    ['it is no JSON', () => put(`${good}}`), /is not JSON/],
    [
      'a host is none',
      () => put(good.replace('api.example', 'https://api.example')),
      /is not valid[^]*allowed_hosts/,
    ],
    [
      'a surface is unknown',
      () => put(good.replace('"value"', '"surfaces":["cookies"],"value"')),
      /surfaces/,
    ],
    ['it is a directory', () => mkdir(path), /is not a regular file/],
  ];

  for (const [what, make, why] of unusable) {
    test(`refuses the start when ${what}`, async () => {
      await daemon.stop();
      await make();
      const before = daemon.output.length;
      await daemon.launch();
      await daemon.ended();
      const said = daemon.output.slice(before);
      assert.match(said, /Cannot use the secrets: /);
      assert.match(said, why);
      assert.match(said, /config_invalid/);
      assert.ok(!said.includes(value), said);
      assert.ok(!processesOf(daemon.dataDir).some(({ command }) => command.includes('host/src/main.ts')));
      await rm(path, { recursive: true });
    });
  }

  test('is in force when it is mended, and follows an edit without a restart', async () => {
    await daemon.start();
    assert.equal(await placeholder(), '');
    await put(good);
    assert.equal(await placeholder(), secret.placeholder);
    await put(good.replaceAll('0123"', '4567"'));
    assert.equal(await placeholder(), 'sk-placeholder-4567');
  });

  test('keeps what was good when an edit is bad, and says so until it is mended', async () => {
    await put(good);
    assert.equal(await placeholder(), secret.placeholder);
    for (const [make, why] of [
      [() => put(`${good}}`), /is not JSON/],
      [() => put(good.replace('0123"', '9999"'), 0o644), /chmod 600 it/],
    ] as const) {
      await make();
      assert.equal(await placeholder(), secret.placeholder);
      const answer = await daemon.request('GET', '/v1/secrets');
      assert.deepEqual([answer.status, answer.json.code], [409, 'secrets_invalid']);
      assert.match(answer.json.detail, why);
      const change = await daemon.request('PUT', '/v1/secrets/OTHER', {
        value,
        allowed_hosts: ['a.example'],
      });
      assert.equal(change.json.code, 'secrets_invalid');
      await waitFor('the daemon to say so', () => /secrets\.refused/.test(daemon.output));
      await waitFor('the egress process to say so', async () => {
        const lines = (await egressLog()).split('\n').filter((line) => line.includes('secrets.refused'));
        return lines.some((line) => why.test(line) && line.includes('the secrets read before stay in force'));
      });
    }
    await put(good);
    assert.equal((await daemon.call('GET', '/v1/secrets')).length, 1);
    assert.ok(!(await egressLog()).includes(value));
    assert.ok(!daemon.output.includes(value));
  });
});
