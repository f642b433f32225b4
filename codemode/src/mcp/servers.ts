/**
 * MCP servers as tools: each server is a namespace, `codemode.<server>.<tool>`. A server that does not answer costs its own tools, not the
 * others.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { getDefaultEnvironment, StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { toolContext } from '../host/tool-context.ts';
import { type CatalogEntry, catalogOf, type JsonSchema, type ToolDefinition } from '../tools/catalog.ts';
import { uniqueNames } from '../tools/names.ts';
import { searchName } from '../tools/search.ts';
import type { ServerConfig, ServersConfig } from './config.ts';
import { unwrap } from './unwrap.ts';

export interface ServerFailure {
  readonly server: string;
  readonly message: string;
}

/** A server that lists more is broken, and would drown the prompt. */
const toolsMax = 5000;
/** Packages that are fetched at their first start take long. */
const connectMsMax = 60_000;

export class McpServers implements AsyncDisposable {
  readonly entries: readonly CatalogEntry[];
  readonly failures: readonly ServerFailure[];
  readonly #clients: readonly Client[];

  private constructor(
    clients: readonly Client[],
    entries: readonly CatalogEntry[],
    failures: readonly ServerFailure[],
  ) {
    this.#clients = clients;
    this.entries = entries;
    this.failures = failures;
  }

  static async connect(servers: ServersConfig): Promise<McpServers> {
    const names = Object.keys(servers);
    const spaces = uniqueNames(names, [searchName]);
    const clients: Client[] = [];
    const failures: ServerFailure[] = [];
    const lists = await Promise.all(
      names.map(async (name, at): Promise<readonly CatalogEntry[]> => {
        const client = new Client({ name: 'squash-codemode', version: '0.1.0' });
        clients.push(client);
        try {
          await client.connect(transportOf(servers[name] as ServerConfig), { timeout: connectMsMax });
          return catalogOf(await toolsOf(client), [spaces[at] ?? name]);
        } catch (failure) {
          failures.push({
            server: name,
            message: failure instanceof Error ? failure.message : String(failure),
          });
          return [];
        }
      }),
    );
    return new McpServers(clients, lists.flat(), failures);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled(this.#clients.map((client) => client.close()));
  }
}

/** A server gets what its entry says and the few variables that programs can't do without, not our whole environment. */
function transportOf(server: ServerConfig): StdioClientTransport | StreamableHTTPClientTransport {
  if ('url' in server)
    return new StreamableHTTPClientTransport(new URL(server.url as string), {
      requestInit: { headers: server.headers as Record<string, string> },
    });
  const { command, args, env, cwd } = server;
  return new StdioClientTransport({
    command,
    args,
    env: { ...getDefaultEnvironment(), ...env },
    stderr: 'ignore',
    ...(cwd !== undefined && { cwd }),
  });
}

async function toolsOf(client: Client): Promise<Readonly<Record<string, ToolDefinition>>> {
  const { tools } = await client.listTools();
  const definitions: Record<string, ToolDefinition> = {};
  for (const tool of tools.slice(0, toolsMax)) {
    definitions[tool.name] = {
      description: tool.description,
      // The server checks its own arguments, and says better what is wrong.
      execute: async (input) =>
        unwrap(
          await client.callTool(
            { name: tool.name, arguments: (input ?? {}) as Record<string, unknown> },
            { signal: toolContext().signal },
          ),
        ),
      inputSchema: undefined,
      outputSchema: undefined,
    };
  }
  return withSchemas(definitions, tools);
}

/** For the declarations only. */
function withSchemas(
  definitions: Readonly<Record<string, ToolDefinition>>,
  tools: readonly { readonly name: string; readonly inputSchema: unknown; readonly outputSchema?: unknown }[],
) {
  return Object.fromEntries(
    tools.flatMap((tool) => {
      const definition = definitions[tool.name];
      const schemas = {
        inputSchema: tool.inputSchema as JsonSchema,
        outputSchema: tool.outputSchema as JsonSchema | undefined,
      };
      return definition === undefined ? [] : [[tool.name, { ...definition, ...schemas }]];
    }),
  );
}
