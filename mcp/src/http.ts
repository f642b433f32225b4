/** The server over HTTP, for clients of this machine; `http-sessions.ts` has the protocol. */
import { type HttpService, type LoopbackPlace, serveLoopback } from '@squash/codemode/loopback-http';
import { HttpSessions } from './http-sessions.ts';
import type { McpOptions } from './options.ts';
import { ToolError } from './tool-error.ts';

/** @throws ToolError `listen_failed` */
export async function serveHttp(mcp: McpOptions, place: LoopbackPlace): Promise<HttpService> {
  const sessions = new HttpSessions(mcp);
  try {
    return await serveLoopback(place, {
      answer: (request) => sessions.answer(request),
      end: () => sessions[Symbol.asyncDispose](),
      // A file of 8 MiB, escaped as JSON by whoever escapes much.
      bodyBytesMax: 16_777_216,
      requestsMax: 96,
    });
  } catch (cause) {
    await sessions[Symbol.asyncDispose]();
    throw new ToolError('listen_failed', cause instanceof Error ? cause.message : String(cause));
  }
}
