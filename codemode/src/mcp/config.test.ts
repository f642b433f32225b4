/** What a person reads whose `mcpServers` file can't be used: the place, and never a value of it. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { parseServers, readServers } from './config.ts';
import { McpServers } from './servers.ts';

test('readServers() says in a sentence what is wrong with the file', () => {
  const neither = 'has neither a "command" with its "args" nor a "url", each of the right form';
  for (const [text, said] of [
    ['{\n"mcpServers": {', '"f" is no JSON (line 2 column 16)'],
    ['{"servers": {}}', '"f": it has no "mcpServers" with an entry for each server'],
    ['{"mcpServers": {"x": {"cmd": "a"}}}', `"f": the entry of "x" ${neither}`],
    ['{"mcpServers": {"x": {"url": "ftp://a"}}}', '"f": the entry of "x": url: Invalid URL'],
    ['{"mcpServers": {"x": {"command": "a", "env": {"KEY": 5}}}}', `"f": the entry of "x" ${neither}`],
  ] as const) {
    assert.throws(() => parseServers(text, 'f'), { kind: 'config', message: said }, text);
  }
  assert.throws(
    () => parseServers('{"mcpServers": sk-secret}', 'f'),
    (error: Error) => !/secret/.test(error.message),
  );
  assert.throws(() => readServers('/none'), {
    kind: 'config',
    message: 'can\'t read "/none": there is no such file',
  });
});

test('McpServers.connect() says why a server is left out', async () => {
  // A port of our own that nobody listens on any more.
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  server.close();
  await using servers = await McpServers.connect(
    parseServers(
      JSON.stringify({
        mcpServers: {
          absent: { command: 'no-such-program-of-ours' },
          short: { command: 'true' },
          remote: { url: `http://127.0.0.1:${address.port}/mcp` },
        },
      }),
      'f',
    ),
  );
  const said = Object.fromEntries(servers.failures.map(({ server: name, message }) => [name, message]));
  assert.equal(said['absent'], 'there is no program "no-such-program-of-ours"');
  assert.equal(said['short'], 'true ended before it answered: start it by hand to see what it says');
  assert.match(said['remote'] ?? '', /fetch failed: connect ECONNREFUSED/);
});
