/** `squash codemode serve` over two real MCP servers, driven by a real MCP client; and a server over HTTP. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { waitFor } from '../../../tests/support/wait.ts';
import { toolTreeOf } from '../tools/catalog.ts';
import { createExecutor } from '../executors.ts';
import { serveLoopback } from './loopback-http.ts';
import { McpServers } from './servers.ts';

const cli = join(import.meta.dirname, '../../../cli/bin/squash.mjs');
const filesystem = createRequire(import.meta.url).resolve(
  '@modelcontextprotocol/server-filesystem/dist/index.js',
);

function textOf(result: { readonly content: readonly unknown[] }): string {
  return result.content.map((block) => (block as { readonly text?: string }).text ?? '').join('\n');
}

/** Within what a result, a text and a log may be, and each as bad for who renders it as that allows. */
const hostile: Readonly<Record<string, string>> = {
  'a wide object': `const o = {}; for (let i = 0; i < 60000; i++) o['k' + i] = i; return o`,
  'many small items': `return Array.from({ length: 300000 }, () => ({}))`,
  // Indented, and each level of each list on a line of its own: 300 MB.
  'lists in lists': `let deep = []; for (let i = 0; i < 900; i++) deep = [deep]; return Array.from({ length: 400 }, () => deep)`,
  'objects in objects': `let deep = 1; for (let i = 0; i < 900; i++) deep = { a: deep, b: 'x'.repeat(900) }; return deep`,
  'a long string': `return '\\u0001'.repeat(150000)`,
  'a long text': `text('x'.repeat(1000000)); return 1`,
  'a text of a large value': `text(Array.from({ length: 100000 }, () => [1]))`,
  'many texts': `for (let i = 0; i < 100000; i++) text('x')`,
  'a long log': `for (let i = 0; i < 100; i++) console.log('y'.repeat(10000))`,
  'a long error': `throw new Error('z'.repeat(1000000))`,
};

const serveWords = ['--no-warnings', cli, 'codemode', 'serve', '--executor', 'quickjs'];

describe('squash codemode serve', () => {
  const folder = mkdtempSync(join(tmpdir(), 'codemode-mcp-'));
  const client = new Client({ name: 'test', version: '1' });

  before(async () => {
    writeFileSync(join(folder, 'a.txt'), 'alpha');
    const config = join(folder, 'mcp.json');
    const node = process.execPath;
    const notes = join(import.meta.dirname, 'notes-server.ts');
    writeFileSync(
      config,
      JSON.stringify({
        mcpServers: {
          files: { command: node, args: [filesystem, folder] },
          'my-notes': { command: node, args: ['--no-warnings', notes], env: { NOTES_OWNER: 'kim' } },
          broken: { command: '/no/such/program' },
        },
      }),
    );
    await client.connect(
      new StdioClientTransport({
        command: node,
        args: [...serveWords, '--tools', config, '--deny', '*.delete_*'],
        stderr: 'ignore',
      }),
    );
  });

  after(async () => {
    await client.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it('offers execute and search, with declarations of both servers', async () => {
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name).sort(), ['execute', 'search']);
    const found = await client.callTool({ name: 'search', arguments: { query: 'add a note' } });
    assert.match(
      textOf(found as never),
      /codemode\.my_notes\.add_note\(input: \{ text: string \}\): Promise<\{ id: number; owner: string \}>/,
    );
  });

  it('runs a program that calls two servers and answers with what it returns', async () => {
    const code = `const listing = await codemode.files.list_directory({ path: ${JSON.stringify(folder)} });
const note = await codemode.my_notes.add_note({ text: 'seen ' + JSON.stringify(listing).includes('a.txt') });
await codemode.files.write_file({ path: ${JSON.stringify(join(folder, 'b.txt'))}, content: note.owner });
console.log('done');
return note;`;
    const result = await client.callTool({ name: 'execute', arguments: { code } });
    assert.equal(result.isError, undefined, textOf(result as never));
    assert.match(textOf(result as never), /"owner": "kim"[^]*Console output:\ndone/);
    assert.equal(readFileSync(join(folder, 'b.txt'), 'utf8'), 'kim');
  });

  it('lets a program find its tools, without those that are denied', async () => {
    const code = `return (await codemode.search({ query: 'note', limit: 5 })).map(({ name }) => name)`;
    const result = await client.callTool({ name: 'execute', arguments: { code } });
    assert.deepEqual(JSON.parse(textOf(result as never)), ['codemode.my_notes.add_note']);
  });

  it('answers within bounds, whatever a program shows and returns', async () => {
    const code = `for (let i = 0; i < 20; i++) { text('x'.repeat(40000)); console.log('y'.repeat(40000)) }
let deep = []; for (let i = 0; i < 900; i++) deep = [deep, deep.length];
return [deep, 'z'.repeat(500000)]`;
    const result = await client.callTool({ name: 'execute', arguments: { code } });
    assert.equal(result.isError, undefined);
    const length = textOf(result as never).length;
    assert.ok(length < 80_000, `${length} characters`);
    assert.equal(textOf(result as never).match(/TRUNCATED/g)?.length, 3);
  });

  it('tells a tool’s failure, a denied tool and a wrong program as errors', async () => {
    for (const [code, message] of [
      ['await codemode.files.read_text_file({ path: "/etc/passwd" })', /runtime error: .*denied/i],
      ['await codemode.my_notes.delete_note({ id: 1 })', /denied/],
      ['return (', /syntax error/],
    ] as const) {
      const result = await client.callTool({ name: 'execute', arguments: { code } });
      assert.equal(result.isError, true);
      assert.match(textOf(result as never), message);
    }
  });
});

test('serve stays as large and as quick as it was, whatever programs return', async () => {
  const client = new Client({ name: 'test', version: '1' });
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: serveWords,
    stderr: 'ignore',
  });
  await client.connect(transport);
  try {
    const mebibytes = (field: string): number => {
      const status = readFileSync(`/proc/${transport.pid}/status`, 'utf8');
      return Number(new RegExp(`^${field}:\\s*(\\d+) kB$`, 'm').exec(status)?.[1]) / 1024;
    };
    await client.callTool({ name: 'execute', arguments: { code: 'return 1' } });
    const before = mebibytes('VmRSS');
    for (const [what, code] of [...Object.entries(hostile), ...Object.entries(hostile)]) {
      const began = performance.now();
      const result = await client.callTool({ name: 'execute', arguments: { code } });
      const ms = performance.now() - began;
      const length = textOf(result as never).length;
      assert.ok(ms < 10_000, `${what}: ${ms} ms`);
      assert.ok(length < 80_000, `${what}: ${length} characters`);
    }
    const most = mebibytes('VmHWM') - before;
    assert.ok(most < 256, `${most} MiB more at its largest`);
    await waitFor('what was held to be given up', () => mebibytes('VmRSS') - before < 160);
  } finally {
    await client.close();
  }
});

test('serve on standard input ends with its work when it is told to', async () => {
  const service = spawn(process.execPath, serveWords, { stdio: ['pipe', 'pipe', 'pipe'] });
  const hello = {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 't', version: '1' } },
  };
  service.stdin.write(`${JSON.stringify(hello)}\n`);
  await once(service.stdout, 'data');
  const children = () => readFileSync(`/proc/${service.pid}/task/${service.pid}/children`, 'latin1').trim();
  await waitFor('a worker', () => children() !== '');
  const workers = children().split(' ');
  service.kill('SIGTERM');
  assert.deepEqual(await once(service, 'exit'), [0, null]);
  for (const pid of workers) assert.equal(existsSync(`/proc/${pid}`), false);
});

test('a --deny that matches no tool is refused', async () => {
  const service = spawn(process.execPath, [...serveWords, '--deny', 'files.write*'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  service.stderr.on('data', (text: Buffer) => {
    said += text.toString();
  });
  const [code] = await once(service, 'close');
  assert.deepEqual([code, said], [2, 'squash: --deny "files.write*" matches none of the tools (usage)\n']);
});

describe('squash codemode serve --http', () => {
  const token = 'a-token-of-this-test';
  let service: ChildProcess;
  let url: string;

  before(async () => {
    service = spawn(process.execPath, [...serveWords, '--http', '0'], {
      env: { PATH: '/usr/bin:/bin', SQUASH_CODEMODE_TOKEN: token },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let said = '';
    for await (const text of service.stderr as NodeJS.ReadableStream) {
      said += String(text);
      if (said.includes('\n')) break;
    }
    url = /serving on (http:\S+)$/m.exec(said)?.[1] ?? '';
    assert.doesNotMatch(said, new RegExp(token));
  });

  it('answers several clients that have the token', async () => {
    const answers = await Promise.all(
      [1, 2, 3].map(async (n) => {
        const client = new Client({ name: 'test', version: '1' });
        const headers = { authorization: `${n === 1 ? 'bearer' : 'Bearer'} ${token}` };
        await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
        const result = await client.callTool({ name: 'execute', arguments: { code: `return ${n} + 1` } });
        await client.close();
        return textOf(result as never);
      }),
    );
    assert.deepEqual(answers, ['2', '3', '4']);
  });

  it('says in one sentence that its port is taken', async () => {
    const words = [...serveWords, '--http', new URL(url).port];
    const second = spawn(process.execPath, words, { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    second.stderr.on('data', (text: Buffer) => {
      said += text.toString();
    });
    const [code] = await once(second, 'close');
    assert.notEqual(code, 0);
    assert.match(said, /^squash: port \d+ can not be served on: another program has it \(unavailable\)\n$/);
  });

  it('refuses pages of a browser, strangers, other paths and bodies without end', async () => {
    const authorization = `Bearer ${token}`;
    const status = async (path: string, headers: Readonly<Record<string, string>>, body = '{}') => {
      const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
      const sent = request(new URL(path, url), { method: 'POST', headers }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      });
      sent.on('error', reject).end(body);
      return await promise;
    };
    assert.equal(await status('/mcp', {}), 401);
    assert.equal(await status('/mcp', { authorization: 'Bearer wrong' }), 401);
    assert.equal(await status('/mcp', { authorization, origin: 'https://example.com' }), 403);
    assert.equal(await status('/mcp', { authorization, host: 'rebound.example.com' }), 403);
    assert.equal(await status('/', { authorization }), 404);
    assert.equal(await status('/mcp', { authorization }, 'x'.repeat(2_097_153)), 413);
  });

  it('ends with its work when it is told to', async () => {
    const ended = once(service, 'exit');
    service.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });
});

test('a fault of the service itself is answered, not cut off', async () => {
  await using service = await serveLoopback(
    { host: '127.0.0.1', port: 0, token: 'secret' },
    {
      answer: () => Promise.reject(new Error('broken')),
      end: () => Promise.resolve(),
      bodyBytesMax: 10,
      requestsMax: 1,
    },
  );
  const { status } = await fetch(service.url, { headers: { authorization: 'Bearer secret' } });
  assert.equal(status, 500);
});

describe('McpServers over HTTP', () => {
  it('calls a tool of a server that speaks Streamable HTTP', async () => {
    const handler = createMcpHandler(() => {
      const server = new McpServer({ name: 'sums', version: '1' });
      server.registerTool('add', { inputSchema: z.object({ a: z.number(), b: z.number() }) }, ({ a, b }) => ({
        content: [{ type: 'text', text: `${a + b}` }],
      }));
      return server;
    });
    const http = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = chunks.length === 0 ? {} : { body: Buffer.concat(chunks) };
        const headers = new Headers(
          Object.entries(request.headers).map(([name, value]): [string, string] => [name, String(value)]),
        );
        void handler
          .fetch(
            new Request(`http://localhost${request.url}`, {
              method: request.method ?? 'GET',
              headers,
              ...body,
            }),
          )
          .then(async (answer) => {
            response.writeHead(answer.status, Object.fromEntries(answer.headers));
            response.end(Buffer.from(await answer.arrayBuffer()));
          });
      });
    });
    await new Promise<void>((settle) => http.listen(0, '127.0.0.1', settle));
    const { port } = http.address() as AddressInfo;
    try {
      await using servers = await McpServers.connect({
        sums: { url: `http://127.0.0.1:${port}/mcp`, headers: {} },
      });
      assert.deepEqual(servers.failures, []);
      await using executor = createExecutor('quickjs', { spares: 0 });
      const { result, error } = await executor.execute(
        'return await codemode.sums.add({ a: 1, b: 2 })',
        toolTreeOf(servers.entries),
      );
      assert.deepEqual([error, result], [undefined, '3']);
    } finally {
      http.closeAllConnections();
      http.close();
    }
  });
});
