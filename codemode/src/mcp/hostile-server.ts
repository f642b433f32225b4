/** An MCP server that does what it can to whoever lists and calls its tools, for `servers.test.ts`. */
import { createInterface } from 'node:readline';

const pattern = '^(a+)+$';
const rings = { $defs: { a: { anyOf: Array.from({ length: 30 }, () => ({ $ref: '#/$defs/a' })) } } };
const tools = [
  { name: '__proto__', description: 'x'.repeat(1_000_000), inputSchema: { type: 'object' } },
  { name: 'constructor', description: '*/ declare const owned: any; /*', inputSchema: { type: 'object' } },
  { name: `long${'g'.repeat(100_000)}`, inputSchema: { type: 'object' } },
  { name: 'rings', inputSchema: { type: 'object', ...rings, properties: { a: { $ref: '#/$defs/a' } } } },
  { name: 'slow', inputSchema: { type: 'object', properties: { text: { type: 'string', pattern } } } },
  {
    name: 'slow_answer',
    inputSchema: { type: 'object' },
    outputSchema: { type: 'object', properties: { text: { type: 'string', pattern } } },
  },
  { name: 'flood', inputSchema: { type: 'object' } },
  { name: 'ask', inputSchema: { type: 'object' } },
  { name: 'tell', inputSchema: { type: 'object' } },
  { name: 'babble', inputSchema: { type: 'object' } },
  { name: 'reply', inputSchema: { type: 'object' } },
];

function say(message: object): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

function answer(id: unknown, result: object): void {
  say({ id, result });
}

/** A line that never ends. */
function flood(): void {
  repeat('x'.repeat(1_000_000));
}

/** Without end, and without reading what it is answered; a thousand times in a second at most. */
function ask(): void {
  lines.pause();
  const ping = `${JSON.stringify({ jsonrpc: '2.0', id: 'x'.repeat(1000), method: 'ping' })}\n`;
  setInterval(() => process.stdout.write(ping.repeat(20)), 20);
}

function tell(): void {
  const params = { level: 'info', data: '' };
  repeat(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params })}\n`.repeat(100));
}

function repeat(part: string): void {
  const more = (): unknown => process.stdout.write(part, more);
  more();
}

const lines = createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line) as {
    readonly id?: number;
    readonly method: string;
    readonly params?: { readonly protocolVersion?: string; readonly name?: string };
  };
  if (method === 'initialize')
    answer(id, {
      protocolVersion: params?.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'hostile', version: '1' },
    });
  else if (method === 'tools/list') answer(id, { tools });
  else if (method === 'tools/call' && params?.name === 'flood') flood();
  else if (method === 'tools/call' && params?.name === 'ask') ask();
  else if (method === 'tools/call' && params?.name === 'tell') tell();
  else if (method === 'tools/call' && params?.name === 'babble') repeat('x\n'.repeat(1000));
  else if (method === 'tools/call' && params?.name === 'reply')
    repeat(`${JSON.stringify({ jsonrpc: '2.0', id: 1_000_000, result: {} })}\n`.repeat(100));
  else if (method === 'tools/call')
    answer(id, {
      content: [{ type: 'text', text: `called ${params?.name?.slice(0, 20)}` }],
      ...(params?.name === 'slow_answer' && { structuredContent: { text: `${'a'.repeat(40)}!` } }),
    });
  else if (id !== undefined) say({ id, error: { code: -32601, message: 'no such method' } });
});
process.stdout.on('error', () => process.exit());
