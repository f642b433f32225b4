/** The CLI beside a daemon that was started before the upgrade: what that does not say yet, nobody needs. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { squash } from '../support/cli.ts';

/** As the first release answered. */
const answers: Readonly<Record<string, unknown>> = {
  '/v1/info': { version: '0.1.0', pid: 7, data_dir: '/data', problems: [], host: [], config: [] },
  '/v1/sandboxes/box/policy': {
    policy: { allow: ['a.example'], deny: [], dns: 'refuse' },
    ceiling: null,
    secrets: 'all',
    in_force: true,
  },
};

test('doctor and policy show do without what an earlier daemon does not say', async () => {
  const server = createServer((request, response) => {
    const answer = answers[request.url ?? ''];
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
  } finally {
    server.close();
    server.closeAllConnections();
  }
});
