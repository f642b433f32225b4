/** A server that somebody else wrote, and a program that nobody has read, against the process that stands between them. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createExecutor } from '../executors.ts';
import { stripTypes } from '../source/typescript.ts';
import { toolTreeOf } from '../tools/catalog.ts';
import { declarationsOf } from '../tools/declarations.ts';
import { boundedFetch, fetchFor } from './bounded-fetch.ts';
import { McpServers } from './servers.ts';

const hostile = {
  command: process.execPath,
  args: ['--no-warnings', join(import.meta.dirname, 'hostile-server.ts')],
  env: {},
};

describe('McpServers with a hostile server', () => {
  const executor = createExecutor('quickjs', { spares: 0 });
  let servers: McpServers;
  const run = (code: string) => executor.execute(code, toolTreeOf(servers.entries));

  before(async () => {
    servers = await McpServers.connect({ hostile });
    assert.deepEqual(servers.failures, []);
  });

  after(async () => {
    await servers[Symbol.asyncDispose]();
    await executor.dispose();
  });

  it('makes safe names, short texts and types with an end of what it lists', () => {
    assert.deepEqual(
      servers.entries.map((entry) => entry.path.at(-1)?.slice(0, 20)),
      [
        '__proto___',
        'constructor_',
        `long${'g'.repeat(16)}`,
        'rings',
        'slow',
        'slow_answer',
        'flood',
        'ask',
        'tell',
        'babble',
        'reply',
      ],
    );
    const text = declarationsOf(servers.entries);
    assert.ok(text.length < 40_000, `${text.length} characters`);
    assert.doesNotMatch(stripTypes(text), /\S/);
    assert.equal(({} as { readonly description?: string }).description, undefined);
  });

  it('runs no expression of its schemas, neither over arguments nor over answers', async () => {
    const { result, error } = await run(
      `return [await codemode.hostile.slow({ text: 'a'.repeat(40) + '!' }), await codemode.hostile.slow_answer()]`,
    );
    assert.deepEqual([error, result], [undefined, ['called slow', { text: `${'a'.repeat(40)}!` }]]);
  });

  for (const [what, code] of [
    [
      'one object in a thousand million places',
      'let x = "text"; for (let i = 0; i < 10; i++) x = Array(1000).fill(x)',
    ],
    ['a list that claims its length', 'const x = []; x.length = 2 ** 32 - 1'],
    [
      'lists that claim their length, many times',
      'const one = []; one.length = 1e6; const x = Array(1000).fill(one)',
    ],
    ['a value nested for ever', 'let x = []; for (let i = 0; i < 1e4; i++) x = [x]'],
  ] as const) {
    it(`refuses to write out ${what}`, async () => {
      const { error } = await run(`${code}; await codemode.hostile.slow({ x })`);
      assert.match(error ?? '', /too large, or nested too deeply/);
    });
  }

  it('ends a server whose line has no end', async () => {
    const { error } = await run('await codemode.hostile.flood()');
    assert.match(error ?? '', /closed|exceeded/i);
    assert.ok(process.memoryUsage().rss < 1_000_000_000);
  });
});

for (const [what, tool, reason] of [
  ['asks without end and reads no answer', 'ask', /does not read the answers to more than 1000 requests/],
  ['tells without end', 'tell', /more than 2000 messages in a second unasked/],
  ['writes lines that are no messages', 'babble', /more than 2000 messages in a second unasked/],
  ['answers what nobody asked', 'reply', /more than 2000 messages in a second unasked/],
] as const) {
  it(`McpServers closes a server that ${what}, and says so`, async () => {
    await using servers = await McpServers.connect({ hostile });
    await using executor = createExecutor('quickjs', { spares: 0 });
    const { error } = await executor.execute(`await codemode.hostile.${tool}()`, toolTreeOf(servers.entries));
    assert.match(error ?? '', /closed/i);
    const [failure, ...others] = servers.failures;
    assert.deepEqual([failure?.server, others], ['hostile', []]);
    assert.match(failure?.message ?? '', reason);
    const again = await executor.execute('await codemode.hostile.slow()', toolTreeOf(servers.entries));
    assert.match(again.error ?? '', /closed|not connected/i);
  });
}

describe('boundedFetch()', () => {
  const part = 'x'.repeat(1_000_000);
  const http = createServer((request, response) => {
    response.writeHead(200);
    let sent = 0;
    const more = (): void => {
      if (response.destroyed) return;
      sent += 1;
      if (sent > 60) response.end();
      else response.write(request.url === '/events' ? `data: ${part}\n\n` : part, more);
    };
    more();
  });
  let origin: string;

  before(async () => {
    await new Promise<void>((settle) => http.listen(0, '127.0.0.1', settle));
    origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  });

  after(() => {
    http.closeAllConnections();
    http.close();
  });

  it('ends an answer that is larger than any that is of use', async () => {
    const response = await boundedFetch(`${origin}/one`);
    assert.equal(response.url, `${origin}/one`);
    await assert.rejects(response.text(), /larger than/);
  });

  it('asks for streams one after the other, however soon a server ends them', async () => {
    const fetch = fetchFor();
    const began = performance.now();
    for (let asked = 0; asked < 6; asked += 1)
      await (await fetch(`${origin}/events`, { method: 'GET' })).body?.cancel();
    assert.ok(performance.now() - began >= 240);
  });

  it('lets events pass for as long as each has an end', async () => {
    const response = await boundedFetch(`${origin}/events`);
    assert.equal((await response.text()).length, 60 * (part.length + 8));
  });
});
