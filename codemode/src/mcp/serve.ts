/** Codemode as an MCP server: two tools, `search` and `execute`, over all tools of the configured servers. */
import { McpServer } from '@modelcontextprotocol/server';
import { StdioServerTransport } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { type CatalogEntry, toolTreeOf } from '../tools/catalog.ts';
import { declarationsOf } from '../tools/declarations.ts';
import { judge } from '../host/policy.ts';
import { ToolSearch, withSearch } from '../tools/search.ts';
import type { ExecuteOptions, ExecuteResult, Executor, ToolTree } from '../types.ts';
import { cutOutput, resultText } from './result-text.ts';

/** Declarations up to here go into the tool's description; larger sets are for `search`. */
const descriptionCharsMax = 12_000;

export interface ServeOptions {
  readonly executor: Executor;
  readonly entries: readonly CatalogEntry[];
  readonly limits?: ExecuteOptions['limits'];
  readonly policy?: ExecuteOptions['policy'];
}

/** What is the same for all clients is made once: of thousands of tools an index and declarations. */
export function mcpServerFactory(options: ServeOptions): () => McpServer {
  // What no program may call is not offered; who calls it all the same is told that it is denied.
  const offered = options.entries.filter(({ path }) => judge(options.policy, path.join('.')) !== 'deny');
  const search = new ToolSearch(offered);
  const tools = toolTreeOf(withSearch(options.entries, search));
  const description = describe(withSearch(offered, search));
  return () => makeServer(options, { search, tools, description });
}

interface Offer {
  readonly search: ToolSearch;
  readonly tools: ToolTree;
  readonly description: string;
}

function makeServer(
  { executor, limits, policy }: ServeOptions,
  { search, tools, description }: Offer,
): McpServer {
  const server = new McpServer({ name: 'squash-codemode', version: '0.1.0' });
  server.registerTool(
    'search',
    {
      description: 'Finds tools that a program for `execute` can call, with their TypeScript signatures.',
      inputSchema: z.object({ query: z.string().max(1000), limit: z.int().min(1).max(50).default(8) }),
    },
    ({ query, limit }) => ({
      content: [{ type: 'text', text: JSON.stringify(search.find(query, limit), null, 1) }],
    }),
  );
  server.registerTool(
    'execute',
    {
      description,
      inputSchema: z.object({ code: z.string().describe('JavaScript or TypeScript') }),
    },
    async ({ code }, context) => {
      const options: ExecuteOptions = {
        codec: 'json',
        signal: context.mcpReq.signal,
        ...(limits !== undefined && { limits }),
        ...(policy !== undefined && { policy }),
      };
      return answerOf(await executor.execute(code, tools, options));
    },
  );
  return server;
}

/** Serves on standard input and output until the client goes, or `signal` says so. */
export async function serveStdio(options: ServeOptions, signal?: AbortSignal): Promise<void> {
  const server = mcpServerFactory(options)();
  const closed = new Promise<void>((settle) => {
    server.server.onclose = settle;
    process.stdin.once('end', settle);
    signal?.addEventListener('abort', () => settle(), { once: true });
  });
  await server.connect(new StdioServerTransport());
  if (signal?.aborted !== true) await closed;
  await server.close();
}

function describe(entries: readonly CatalogEntry[]): string {
  const head = `Runs a program that may call tools and returns what it returns. Statements with a top-level \`return\` and \`await\`; TypeScript is fine; no imports, no network, no files but through the tools. console.log() comes back beside the result. Write one program for the whole task and return only what matters.`;
  const declarations = declarationsOf(entries);
  if (declarations.length <= descriptionCharsMax) return `${head}\n\n${declarations}`;
  const spaces = [...new Set(entries.map((entry) => entry.path.slice(0, -1).join('.')))];
  return `${head}\n\n${entries.length} tools in ${spaces.join(', ')}: find them with \`search\`, or in a program with \`await codemode.search({ query })\`.`;
}

function answerOf(result: ExecuteResult) {
  const blocks = cutOutput(result.output ?? []).map((block) => ({ ...block }));
  return {
    content: [...blocks, { type: 'text' as const, text: resultText(result) }],
    ...(result.error !== undefined && { isError: true }),
  };
}
