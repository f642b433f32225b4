/** Codemode as an MCP server over HTTP, for clients of this machine. */
import { createMcpHandler } from '@modelcontextprotocol/server';
import { type HttpService, serveLoopback } from './loopback-http.ts';
import { mcpServerFactory, type ServeOptions } from './serve.ts';

export interface HttpServeOptions extends ServeOptions {
  /** 0 takes any that is free. */
  readonly port: number;
  readonly token: string;
}

/** @throws CodemodeError `unavailable` where the port is taken */
export async function serveHttp(options: HttpServeOptions): Promise<HttpService> {
  const handler = createMcpHandler(mcpServerFactory(options));
  const { port, token } = options;
  return await serveLoopback(
    { host: '127.0.0.1', port, token },
    {
      answer: (request) => handler.fetch(request),
      end: () => handler.close(),
      // The longest program, escaped as JSON, and what stands around it.
      bodyBytesMax: 2_097_152,
      // Beyond the runs that execute at once some may wait; more is a client in a loop.
      requestsMax: 64,
    },
  );
}
