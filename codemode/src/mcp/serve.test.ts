/** `squash codemode serve` over two real MCP servers, driven by a real MCP client; and a server over HTTP. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { toolTreeOf } from '../tools/catalog.ts';
import { createExecutor } from '../executors.ts';
import { McpServers } from './servers.ts';

const cli = join(import.meta.dirname, '../../../cli/bin/squash.mjs');
const filesystem = createRequire(import.meta.url).resolve(
  '@modelcontextprotocol/server-filesystem/dist/index.js',
);

function textOf(result: { readonly content: readonly unknown[] }): string {
  return result.content.map((block) => (block as { readonly text?: string }).text ?? '').join('\n');
}

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
        args: [
          '--no-warnings',
          cli,
          'codemode',
          'serve',
          '--executor',
          'quickjs',
          '--tools',
          config,
          '--deny',
          '*.delete_*',
        ],
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
