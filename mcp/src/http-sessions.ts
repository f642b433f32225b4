/**
 * Who speaks over HTTP. Clients of the protocol's versions up to 2025 have sessions: each has sandboxes of its own, and ends when it says so or has
 * been silent for long. Clients of 2026-07-28 have none: all of them share what they make, and name the sandbox in each call.
 */
import { randomUUID } from 'node:crypto';
import {
  createMcpHandler,
  isLegacyRequest,
  type McpHttpHandler,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { mcpLimits, type McpOptions } from './options.ts';
import { makeServer } from './server.ts';
import { Session } from './session.ts';

const bodyBytes = { maxRequestBodySize: 16_777_216 };

interface Open {
  readonly session: Session;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly end: () => Promise<void>;
}

export class HttpSessions implements AsyncDisposable {
  readonly #options: McpOptions;
  readonly #open = new Map<string, Open>();
  /** Those that are just beginning count as well. */
  #beginning = 0;
  readonly #shared: Session;
  readonly #modern: McpHttpHandler;
  readonly #timer: NodeJS.Timeout;

  constructor(options: McpOptions) {
    this.#options = options;
    this.#shared = new Session(options, { isShared: true });
    this.#modern = createMcpHandler(() => makeServer(this.#shared), { legacy: 'reject', ...bodyBytes });
    this.#timer = setInterval(() => this.#endSilent(), 60_000).unref();
  }

  async answer(request: Request): Promise<Response> {
    if (!(await isLegacyRequest(request, undefined, bodyBytes))) return await this.#modern.fetch(request);
    const id = request.headers.get('mcp-session-id');
    if (id === null) return await this.#begin(request);
    const open = this.#open.get(id);
    // What the protocol has for it: the client begins anew.
    if (open === undefined) return refusal(404, 'there is no such session: it has ended');
    open.session.touch();
    return await open.transport.handleRequest(request);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all([...this.#open.values()].map(async (open) => await open.end()));
    await this.#modern.close();
    await this.#shared[Symbol.asyncDispose]();
  }

  /** A session begins with `initialize`; the transport refuses anything else without one. */
  async #begin(request: Request): Promise<Response> {
    if (this.#open.size + this.#beginning >= mcpLimits.sessions)
      return refusal(
        503,
        `${mcpLimits.sessions} sessions are open: end one, or wait until a silent one ends`,
      );
    this.#beginning += 1;
    const session = new Session(this.#options);
    const server = makeServer(session);
    const end = once(async () => {
      if (transport.sessionId !== undefined) this.#open.delete(transport.sessionId);
      await server.close();
      await session[Symbol.asyncDispose]();
    });
    const transport = new WebStandardStreamableHTTPServerTransport({
      ...bodyBytes,
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => {
        this.#open.set(id, { session, transport, end });
      },
      onsessionclosed: () => void end(),
    });
    try {
      await server.connect(transport);
      const answer = await transport.handleRequest(request);
      if (transport.sessionId === undefined) await end();
      return answer;
    } catch (error) {
      await end();
      throw error;
    } finally {
      this.#beginning -= 1;
    }
  }

  #endSilent(): void {
    for (const { session, end } of this.#open.values()) {
      if (session.silentMs > mcpLimits.sessionIdleMs) void end();
    }
  }
}

function refusal(status: number, message: string): Response {
  const error = { code: status === 404 ? -32_001 : -32_000, message };
  return Response.json({ jsonrpc: '2.0', error, id: null }, { status });
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
