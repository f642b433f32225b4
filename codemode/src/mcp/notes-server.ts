/** A small MCP server of our own, for the end-to-end test: notes in memory. */
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const notes = new Map<number, string>();
const server = new McpServer({ name: 'notes', version: '1' });
const owner = process.env['NOTES_OWNER'] ?? 'nobody';

server.registerTool(
  'add-note',
  {
    description: 'Adds a note',
    inputSchema: z.object({ text: z.string() }),
    outputSchema: z.object({ id: z.number(), owner: z.string() }),
  },
  ({ text }) => {
    const id = notes.size + 1;
    notes.set(id, text);
    return { content: [{ type: 'text', text: `note ${id}` }], structuredContent: { id, owner } };
  },
);
server.registerTool(
  'delete-note',
  { description: 'Deletes a note', inputSchema: z.object({ id: z.number() }) },
  ({ id }) => {
    notes.delete(id);
    return { content: [{ type: 'text', text: 'gone' }] };
  },
);
await server.connect(new StdioServerTransport());
