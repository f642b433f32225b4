/** The CLI beside a daemon that was started before the upgrade: what that does not say yet, nobody needs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { squash } from '../support/cli.ts';

const box = {
  id: 'box',
  owner: 'anon',
  task: 'a task',
  layers: ['000-base-debian'],
  created: '2026-01-02T03:04:05.000Z',
  exec_count: 3,
  upper_bytes: 4_096,
  snapshots: [],
  state: 'ready',
  warnings: [],
};

/** As the first release answered. */
const answers: Readonly<Record<string, unknown>> = {
  '/v1/info': { version: '0.1.0', pid: 7, data_dir: '/data', problems: [], host: [], config: [] },
  '/cgi-bin/api/sandboxes': [box],
  '/cgi-bin/api/sandboxes/box': box,
  '/v1/sandboxes/box/snapshots': [
    {
      label: 'clean',
      created: '2026-01-02T03:04:05.000Z',
      size: 4_096,
      whole: true,
      base: null,
      active: false,
    },
  ],
  '/v1/sandboxes/box/policy': {
    policy: { allow: ['a.example'], deny: [], dns: 'refuse' },
    ceiling: null,
    secrets: 'all',
    in_force: true,
  },
};

const unknown = { code: 'unknown_field', message: '"mounts" is unknown and has no effect' };
const posted: Readonly<Record<string, unknown>> = {
  '/cgi-bin/api/sandboxes': { ...box, id: 'sb-made', warnings: [unknown] },
};

test('doctor, policy show, ls, info, create and snapshots ls do without what an earlier daemon does not say', async () => {
  const removed: string[] = [];
  const server = createServer((request, response) => {
    if (request.method === 'DELETE') {
      removed.push(request.url ?? '');
      response.writeHead(204).end();
      return;
    }
    const answer =
      request.method === 'POST'
        ? posted[request.url ?? '']
        : answers[(request.url ?? '').replace(/\?.*/, '')];
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer ?? {}));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const env = { SQUASH_API: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  try {
    const doctor = await squash(undefined, ['doctor'], { env });
    assert.match(doctor.stdout.toString(), /Daemon 0\.1\.0, pid 7/, doctor.stderr);
    assert.equal(doctor.code, 0, doctor.stderr);
    const policy = await squash(undefined, ['policy', 'show', 'box'], { env });
    assert.equal(policy.code, 0, policy.stderr);
    assert.match(policy.stdout.toString(), /allow\[0\] a\.example/);
    const printed = async (...words: string[]): Promise<string> => {
      const { code, stdout, stderr } = await squash(undefined, words, { env });
      assert.equal(code, 0, stderr);
      return stdout.toString();
    };
    assert.match(await printed('ls'), /^box +ready +\d+d +3 +4\.1 kB +anon +000-base-debian$/m);
    assert.deepEqual(JSON.parse(await printed('ls', '--json')), [
      { ...box, created_at: box.created, commands: 3, disk_bytes: 4_096 },
    ]);
    assert.match(await printed('info', 'box'), /^task: +a task$/m);
    assert.match(await printed('snapshots', 'ls', 'box'), /^clean +\d+d +4\.1 kB/m);
    assert.equal(await printed('create', '--lifetime', '2h'), 'sb-made\n');
    assert.deepEqual(removed, []);
    const without = await squash(undefined, ['create', 'sb-made', '--volume', 'data:/data'], { env });
    assert.match(without.stderr, /earlier release.*\(daemon_outdated\)/);
    assert.deepEqual(
      removed,
      ['/cgi-bin/api/sandboxes/sb-made'],
      'nobody is left with one that has no volume',
    );
    const refused = await squash(undefined, ['ls', '--label', 'a'], { env });
    assert.equal(refused.code, 1, 'a filter that the daemon does not know is not left out');
  } finally {
    server.close();
    server.closeAllConnections();
  }
});
