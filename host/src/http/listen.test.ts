/** Whether an address is to be had: at once, or after the moment for which somebody else may hold it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { freePort } from '../../../tests/support/free-port.ts';
import { checkListen } from './listen.ts';

test('a port that is taken is refused, after the time in which it may become free', async () => {
  const port = await freePort();
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  const taken = { code: 'config_invalid', message: /another program listens there/ };
  await assert.rejects(checkListen('127.0.0.1', port), taken);
  await assert.rejects(checkListen('127.0.0.1', port, 120), taken);
  const waited = checkListen('127.0.0.1', port, 10_000);
  setTimeout(() => server.close(), 200);
  await waited;
});
