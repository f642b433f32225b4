/** What `@cloudflare/codemode` expects of an executor: its contract row by row, and its own package on top of ours. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { codeMcpServer, openApiMcpServer } from '@cloudflare/codemode/mcp';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { z } from 'zod';
import { createExecutor } from '../executors.ts';
import type { PooledExecutor } from '../executor.ts';
import { type CloudflareExecutor, toCloudflareExecutor } from './executor.ts';

let executor: PooledExecutor;
let cloudflare: CloudflareExecutor;
before(() => {
  executor = createExecutor('quickjs', { logStyle: 'cloudflare', limits: { wallMs: 5000 } });
  cloudflare = toCloudflareExecutor(executor);
});
after(() => executor.dispose());

type Given = Parameters<CloudflareExecutor['execute']>;

interface Row {
  readonly name: string;
  readonly code: string;
  readonly tools?: Given[1];
  readonly options?: Given[2];
  readonly expect: { readonly result?: unknown; readonly error?: string; readonly logs?: readonly string[] };
}

const echo = async (...args: unknown[]) => args;
const spaces = (name: string) => [{ name, fns: {} }];

const rows: readonly Row[] = [
  {
    name: 'bare functions are the namespace codemode',
    code: 'async () => { console.warn("w"); return await codemode.get_page(1) }',
    tools: { 'get-page': echo },
    expect: { result: [1], logs: ['[warn] w'] },
  },
  {
    name: 'a provider is a namespace',
    code: 'return await site.f(2)',
    tools: [{ name: 'site', fns: { f: echo } }],
    expect: { result: [2] },
  },
  {
    name: 'a prelude defines what the program calls, and keeps it from being replaced',
    code: 'codemode.twice = () => "forged"; return await codemode.twice(4)',
    tools: [
      {
        name: 'codemode',
        fns: { echo },
        prelude: 'codemode.twice = async (n) => [...await codemode.echo(n), n];',
      },
    ],
    expect: { result: [4, 4] },
  },
  {
    name: 'bytes keep their kind on the way to a tool and back, other values are JSON',
    code: `const seen = await codemode.echo(new Uint8Array([1, 2]), new Uint8Array([3]).buffer, new Float32Array(1).subarray(0, 1), new Date(0), { u: undefined, n: NaN });
return seen.map((x) => [Object.prototype.toString.call(x), x instanceof ArrayBuffer ? x.byteLength : x.length ?? JSON.stringify(x)])`,
    tools: { echo: async (...args: unknown[]) => args },
    expect: {
      result: [
        ['[object Uint8Array]', 2],
        ['[object ArrayBuffer]', 1],
        ['[object Uint8Array]', 4],
        ['[object String]', 24],
        ['[object Object]', '{"n":null}'],
      ],
    },
  },
  { name: 'a thrown error is its message', code: 'throw new RangeError("x")', expect: { error: 'x' } },
  {
    name: 'a tool’s error is its message, thrown as an Error',
    code: 'try { await codemode.fail() } catch (e) { return [e.name, e.message] }',
    tools: { fail: async () => Promise.reject(new TypeError('no')) },
    expect: { result: ['Error', 'no'] },
  },
  {
    name: 'an unknown tool',
    code: 'await codemode.constructor()',
    tools: { echo },
    expect: { error: 'Tool "constructor" not found' },
  },
  {
    name: 'a namespace is no thenable',
    code: 'return typeof (await codemode).echo',
    tools: { echo },
    expect: { result: 'function' },
  },
  { name: 'too long', code: 'await new Promise(() => {})', expect: { error: 'Execution timed out' } },
  { name: 'a syntax error', code: 'return (', expect: { error: 'Unexpected token (1:8)' } },
  {
    name: 'no way out of the wrapper',
    code: '})(); globalThis.x = 1; (() => {',
    expect: { error: 'Unexpected token (1:0)' },
  },
  {
    name: 'nothing of the wrapper can be named',
    code: 'return [typeof makeSpaces, typeof rawOf, typeof spaceOf, typeof raw, typeof own]',
    tools: { echo },
    expect: { result: ['undefined', 'undefined', 'undefined', 'undefined', 'undefined'] },
  },
  {
    name: 'names that become one',
    code: '1',
    tools: { 'a-b': echo, 'a.b': echo },
    expect: { error: 'Tool names "a-b" and "a.b" both sanitize to "a_b" in provider "codemode"' },
  },
  {
    name: 'a reserved name',
    code: '1',
    tools: spaces('Promise'),
    expect: { error: 'Provider name "Promise" is reserved' },
  },
  {
    name: 'a name of its harness',
    code: '1',
    tools: spaces('__logs'),
    expect: { error: 'Provider name "__logs" is reserved' },
  },
  {
    name: 'no identifier',
    code: '1',
    tools: spaces('a b'),
    expect: { error: 'Provider name "a b" is not a valid JavaScript identifier' },
  },
  {
    name: 'a name twice',
    code: '1',
    tools: [...spaces('a'), ...spaces('a')],
    expect: { error: 'Duplicate provider name "a"' },
  },
  ...(
    [
      ['to a tool', 'await codemode.echo(x)'],
      ['to a connector', 'await github.list(x)'],
      ['as a connector’s method', 'await globalThis.github.callTool(x)'],
      ['as the result', 'return x'],
    ] as const
  ).map(([what, way]) => ({
    name: `a small value that is a thousand million once it is JSON, ${what}`,
    code: `let x = [1]; for (let i = 0; i < 4; i++) x = Array(200).fill(x); ${way}`,
    tools: { echo },
    options: { connectors: [{ name: 'github', binding: { callTool: async () => 1 } }] },
    expect: { error: 'the value is too large, or nested too deeply, once it is written out' },
  })),
  {
    name: 'a connector is called with a method and one argument',
    code: 'return await github.list_issues({ repo: "x" }, "dropped")',
    options: {
      connectors: [{ name: 'github', binding: { callTool: async (method, args) => ({ method, args }) } }],
    },
    expect: { result: { method: 'list_issues', args: { repo: 'x' } } },
  },
  {
    name: 'a connector ends the run for an approval',
    code: 'return await github.close(1)',
    options: {
      connectors: [
        { name: 'github', binding: { callTool: async () => ({ __codemode_control__: 'pause' }) } },
      ],
    },
    expect: { error: '__CODEMODE_PAUSE__' },
  },
  {
    name: 'a connector’s own error',
    code: 'try { await github.close(1) } catch (e) { return e.message }',
    options: {
      connectors: [
        {
          name: 'github',
          binding: { callTool: async () => ({ __codemode_control__: 'error', message: 'gone' }) },
        },
      ],
    },
    expect: { result: 'gone' },
  },
  {
    name: 'a connector with a provider’s name',
    code: '1',
    tools: spaces('a'),
    options: { connectors: [{ name: 'a', binding: { callTool: async () => 1 } }] },
    expect: { error: 'Duplicate name "a" (connector clashes with provider)' },
  },
  {
    name: 'a connector with a reserved name',
    code: '1',
    options: { connectors: [{ name: 'console', binding: { callTool: async () => 1 } }] },
    expect: { error: 'Connector name "console" is reserved' },
  },
];

it('@cloudflare/codemode is not for plain Node, what it builds on an executor is', async () => {
  const name: string = '@cloudflare/codemode';
  await assert.rejects(import(name), /Received protocol 'cloudflare:'/);
  assert.equal(
    typeof ((await import(`${name}/browser`)) as { IframeSandboxExecutor: unknown }).IframeSandboxExecutor,
    'function',
  );
  assert.equal(typeof codeMcpServer, 'function');
});

describe('toCloudflareExecutor()', () => {
  for (const { name, code, tools = {}, options, expect } of rows) {
    it(name, async () => {
      const { result, error, logs } = await cloudflare.execute(code, tools, options);
      assert.deepEqual({ result, error, logs }, { result: undefined, error: undefined, logs: [], ...expect });
    });
  }
});

describe('@cloudflare/codemode with our executor', () => {
  async function connected(server: McpServer): Promise<Client> {
    const [there, here] = InMemoryTransport.createLinkedPair();
    await server.connect(there);
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(here);
    return client;
  }

  it('codeMcpServer() runs a program over the tools of a server', async () => {
    const server = new McpServer({ name: 'sums', version: '1' });
    server.registerTool('add-up', { inputSchema: { a: z.number(), b: z.number() } }, async ({ a, b }) => ({
      content: [{ type: 'text', text: `${a + b}` }],
    }));
    const client = await connected(await codeMcpServer({ server, executor: cloudflare }));
    const run = async (code: string) => {
      const answer = await client.callTool({ name: 'code', arguments: { code } });
      return [answer.isError ?? false, (answer.content as readonly { readonly text: string }[])[0]?.text];
    };
    const sum = 'async () => { const r = await codemode.add_up({ a: 1, b: 2 }); return { r } }';
    assert.deepEqual(await run(sum), [false, '{\n  "r": 3\n}']);
    assert.deepEqual(await run('async () => codemode.nope()'), [true, 'Error: Tool "nope" not found']);
    await client.close();
  });

  it('openApiMcpServer() lets a program read the description and send requests', async () => {
    const spec = {
      openapi: '3.1.0',
      info: { title: 't', version: '1' },
      paths: { '/pets': { get: { summary: 'Lists pets' } } },
    };
    const request = async ({ method, path }: { readonly method: string; readonly path: string }) => ({
      method,
      path,
    });
    const client = await connected(openApiMcpServer({ spec, executor: cloudflare, request }));
    const run = async (name: string, code: string) => {
      const answer = await client.callTool({ name, arguments: { code } });
      return JSON.parse((answer.content as readonly [{ readonly text: string }])[0].text) as unknown;
    };
    assert.deepEqual(await run('search', 'async () => Object.keys((await codemode.spec()).paths)'), [
      '/pets',
    ]);
    assert.deepEqual(await run('execute', 'async () => codemode.request({ method: "GET", path: "/pets" })'), {
      method: 'GET',
      path: '/pets',
    });
    await client.close();
  });
});
