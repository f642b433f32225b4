/**
 * MCP servers as tools: each server is a namespace, `codemode.<server>.<tool>`. A server that does not answer costs its own tools, not the
 * others.
 */
import {
  Client,
  type JsonSchemaValidator,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { getDefaultEnvironment, StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { chargeRun, toolContext } from '../host/tool-context.ts';
import type { CatalogEntry, JsonSchema } from '../tools/catalog.ts';
import { refuseExpansive } from '../tools/expanse.ts';
import { uniqueNames } from '../tools/names.ts';
import { searchName } from '../tools/search.ts';
import { fetchFor } from './bounded-fetch.ts';
import { boundTransport } from './bounded-transport.ts';
import type { ServerConfig, ServersConfig } from './config.ts';
import { unwrap } from './unwrap.ts';

export interface ServerFailure {
  readonly server: string;
  readonly message: string;
}

/** A server that lists more is broken, and would drown the prompt. */
const toolsMax = 5000;
/** Longer descriptions are for people, not for a prompt that holds many tools. */
const descriptionCharsMax = 4096;
/** Packages that are fetched at their first start take long. */
const connectMsMax = 60_000;

export class McpServers implements AsyncDisposable {
  readonly entries: readonly CatalogEntry[];
  /** Those that did not connect, and from then on those that had to be closed. */
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
        const client = new Client(
          { name: 'squash-codemode', version: '0.1.0' },
          { jsonSchemaValidator: notValidating },
        );
        clients.push(client);
        const server = servers[name] as ServerConfig;
        const transport = transportOf(server);
        boundTransport(transport, (message) => failures.push({ server: name, message }));
        try {
          await client.connect(transport, { timeout: connectMsMax });
          return await toolsOf(client, spaces[at] ?? name);
        } catch (failure) {
          if (!failures.some((known) => known.server === name))
            failures.push({ server: name, message: failureMessage(failure, server) });
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

/** What a person can do something about. A server's own words on standard error are not taken: it may write without end. */
function failureMessage(failure: unknown, server: ServerConfig): string {
  if (!(failure instanceof Error)) return String(failure);
  const { message, cause } = failure;
  const command = 'command' in server ? (server.command as string) : undefined;
  if (command !== undefined && message.includes('Connection closed'))
    return `${command} ended before it answered: start it by hand to see what it says`;
  if (command !== undefined && 'code' in failure && failure.code === 'ENOENT')
    return `there is no program "${command}"`;
  return cause instanceof Error && cause.message !== '' ? `${message}: ${cause.message}` : message;
}

/** A server gets what its entry says and the few variables that programs can't do without, not our whole environment. */
function transportOf(server: ServerConfig): StdioClientTransport | StreamableHTTPClientTransport {
  if ('url' in server)
    return new StreamableHTTPClientTransport(new URL(server.url as string), {
      requestInit: { headers: server.headers as Record<string, string> },
      fetch: fetchFor(),
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

/**
 * A server's schemas are for the declarations only. To check a value by one would be to run a stranger's program: an expression among its
 * patterns can take for ever over the right text, in this process and outside of every limit of a run. The server checks its own arguments.
 */
const notValidating = {
  getValidator<T>(): JsonSchemaValidator<T> {
    return (input) => ({ valid: true, data: input as T, errorMessage: undefined });
  },
};

async function toolsOf(client: Client, space: string): Promise<readonly CatalogEntry[]> {
  // All pages together: a server may take its time for each, and the others wait.
  const options = { signal: AbortSignal.timeout(connectMsMax) };
  const listed = (await client.listTools(undefined, options)).tools.slice(0, toolsMax);
  const tools = [...new Map(listed.map((tool) => [tool.name, tool])).values()];
  const safe = uniqueNames(tools.map((tool) => tool.name));
  return tools.map(({ name, description = '', inputSchema, outputSchema }, at): CatalogEntry => {
    return {
      path: ['codemode', space, safe[at] ?? name],
      description: description.slice(0, descriptionCharsMax),
      input: inputSchema as JsonSchema,
      output: outputSchema as JsonSchema | undefined,
      async call(input) {
        // It is about to be written as JSON.
        chargeRun(() => refuseExpansive(input));
        const given = { name, arguments: (input ?? {}) as Record<string, unknown> };
        return unwrap(await client.callTool(given, { signal: toolContext().signal }));
      },
    };
  });
}
