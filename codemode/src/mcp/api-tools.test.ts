/** The API's operations as tools (`contract/mcp-tools.json`), served by the official server and called by the official client. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { fromJsonSchema, McpServer } from '@modelcontextprotocol/server';

interface ApiTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: Parameters<typeof fromJsonSchema>[0];
  readonly annotations: Readonly<Record<string, boolean>>;
  readonly _meta: Readonly<Record<string, string>>;
}

const file = new URL('../../../contract/mcp-tools.json', import.meta.url);
const apiTools = JSON.parse(readFileSync(file, 'utf8')) as readonly ApiTool[];
const server = new McpServer({ name: 'squash-api', version: '0.1.0' });
const client = new Client({ name: 'test', version: '0.1.0' });

before(async () => {
  for (const { name, inputSchema, ...rest } of apiTools)
    server.registerTool(name, { ...rest, inputSchema: fromJsonSchema(inputSchema) }, (input) => ({
      content: [{ type: 'text', text: JSON.stringify(input) }],
    }));
  const [here, there] = InMemoryTransport.createLinkedPair();
  await server.connect(there);
  await client.connect(here);
});

after(async () => {
  await client.close();
  await server.close();
});

async function accepts(name: string, input: Record<string, unknown>): Promise<boolean> {
  try {
    return (await client.callTool({ name, arguments: input })).isError !== true;
  } catch {
    // A protocol error: the arguments are not what the tool takes.
    return false;
  }
}

test('a client lists every tool with its schema and its hints', async () => {
  const { tools } = await client.listTools();
  assert.equal(tools.length, apiTools.length);
  for (const { name, description = '' } of tools) {
    assert.match(name, /^[a-z_]{1,64}$/);
    assert.ok(description !== '', name);
  }
  const hints = Object.fromEntries(tools.map(({ name, annotations }) => [name, annotations]));
  assert.equal(hints['sandbox_list']?.readOnlyHint, true);
  assert.equal(hints['sandbox_destroy']?.destructiveHint, true);
  for (const name of ['sandbox_create', 'process_start', 'file_search', 'snapshot_diff', 'approval_decide'])
    assert.ok(Object.hasOwn(hints, name), name);
});

test('a call is taken with the arguments of the operation, and refused with others', async () => {
  const from = { layers: ['000-base-debian'] };
  const command = { id: 'dev', shell: 'ls', user: 'root', timeout_ms: 1_000 };
  assert.ok(await accepts('sandbox_create', { from, labels: { team: 'core' }, idle_timeout_s: 60 }));
  assert.ok(await accepts('process_exec', command));
  assert.ok(await accepts('snapshot_update', { id: 'dev', label: 'clean', new_label: 'tidy' }));
  assert.ok(!(await accepts('sandbox_create', { from, color: 'red' })));
  assert.ok(!(await accepts('process_exec', { ...command, timeout_ms: 'long' })));
  assert.ok(!(await accepts('snapshot_update', { id: '../dev', label: 'clean' })));
  assert.ok(!(await accepts('sandbox_get', {})));
});
