/** What a refused body held is not in the refusal. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { readJsonObject } from './body.ts';

test('a body that is no JSON is refused without a word of it', async () => {
  const server = createServer((request, response) => {
    readJsonObject(request, { isStrict: false }).then(
      () => response.end('taken'),
      (error: Error) => response.end(error.message),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const { port } = server.address() as AddressInfo;
    for (const body of [
      '{"value":sk-real-value}',
      '{"value":"sk-real-value"',
      '{"value":"sk-real-value}',
      'sk-real-value',
      '{"value":"x at position 1 (line 1 column 1)" sk-real-value}',
    ]) {
      const answer = await fetch(`http://127.0.0.1:${port}/`, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json' },
      });
      assert.match(
        await answer.text(),
        /^The body is no JSON( at position \d+( \(line \d+ column \d+\))?)?$/,
      );
    }
  } finally {
    server.close();
    server.closeAllConnections();
  }
});
