/** What the daemon says of itself, and to whom. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HeldKey } from '@squash/contract/keys';
import { Secret } from '@squash/base/secret';
import { thinEngine } from '../../../tests/support/thin-engine.ts';
import { ThinServer } from '../../../tests/support/thin-server.ts';

const operatorToken = 'the-operator-of-this-test';
const held = { name: 'x', owner: 'team', expiresMs: null };
const keys: Readonly<Record<string, HeldKey>> = {
  user: { ...held, id: 'key_1', scope: 'manage' },
  admin: { ...held, id: 'key_2', scope: 'admin' },
};

test('what is wrong is told to the operator; others learn what kind it is, and nobody’s sandbox', async () => {
  const engine = {
    ...thinEngine({ keys: { count: 2, find: (token) => keys[token], holds: () => true } }),
    problems: () => [{ code: 'removal_pending', message: 'sandbox "of-somebody"' }] as const,
  };
  await using server = await ThinServer.start(engine, { authToken: new Secret(operatorToken) });
  for (const [token, isTold] of [
    [undefined, false],
    ['wrong', false],
    ['user', false],
    ['admin', true],
    [operatorToken, true],
  ] as const) {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    for (const path of ['/cgi-bin/health', '/v1/info']) {
      const { status, text } = await server.send({ path, headers });
      if (status === 401) continue;
      assert.match(text, /"code":"removal_pending"/);
      assert.equal(text.includes('of-somebody'), isTold, `${path} ${token}`);
    }
  }
});
