/**
 * A request for any operation of the contract, put together from what the contract says: for tests that go through all of
 * them. Bodies are the documented examples, parameters name things that are not there, and the answer's head is enough.
 */
import { once } from 'node:events';
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { text as readText } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Operation } from '@squash/contract/operations/operation';
import { z } from 'zod';
import { nameShapes } from '../../tools/openapi/shapes.ts';

nameShapes();

export interface SentRequest {
  readonly port: number;
  readonly sandbox: string;
  readonly headers?: OutgoingHttpHeaders;
}

export interface HeadAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  /** What came within a moment: a stream is left then. */
  readonly text: string;
}

/** So long a stream is heard: an answer that ends has ended by then, or says its status at least. */
const heardMs = 2_000;

/** What stands for a parameter that is no sandbox. Where an operation knows another form it says what is wrong, as of any. */
const values: Readonly<Record<string, string>> = {
  name: 'nothing',
  label: 'nothing',
  jobId: '999',
  secret: 'NOTHING',
  key: 'key_0',
  volume: 'nothing',
  mount: 'mnt_0000000000000000',
  owner: 'nobody',
  tier: 'nothing',
  group: 'nothing',
  chat: 'nothing',
  number: '999',
};

export function pathFor({ path, example }: Operation, sandbox: string): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_all, name: string) =>
    encodeURIComponent(name === 'id' ? sandbox : (values[name] ?? example?.params?.[name] ?? '1')),
  );
  const asked = new URLSearchParams(example?.query).toString();
  return asked === '' ? filled : `${filled}?${asked}`;
}

export function exampleOf(schema: z.ZodType | undefined): unknown {
  if (schema === undefined) return undefined;
  const examples: unknown = z.globalRegistry.get(schema)?.['examples'];
  return Array.isArray(examples) ? examples[0] : {};
}

export async function sendOperation(
  operation: Operation,
  { port, sandbox, headers }: SentRequest,
): Promise<HeadAnswer> {
  const body =
    operation.body === undefined
      ? undefined
      : JSON.stringify(operation.example?.body ?? exampleOf(operation.body));
  const upgrade = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': Buffer.alloc(16).toString('base64'),
    'sec-websocket-protocol': operation.webSocket,
  };
  const sent = request({
    host: '127.0.0.1',
    port,
    agent: false,
    method: operation.method,
    path: pathFor(operation, sandbox),
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(operation.upload === undefined ? {} : { 'content-type': operation.upload.contentType }),
      ...(operation.webSocket === undefined ? {} : upgrade),
      ...headers,
    },
  });
  sent.end(body ?? (operation.upload === undefined ? undefined : 'x'));
  const answered = once(sent, 'response') as Promise<[IncomingMessage]>;
  const upgraded = (once(sent, 'upgrade') as Promise<[IncomingMessage]>).catch(() => answered);
  const [response] = await Promise.race([answered, upgraded]);
  const { statusCode: status = 0 } = response;
  if (status === 101) {
    response.socket.destroy();
    return { status, headers: response.headers, text: '' };
  }
  const gone = new AbortController();
  const text = await Promise.race([
    readText(response).catch(() => ''),
    pause(heardMs, '', { signal: gone.signal }).catch(() => ''),
  ]);
  gone.abort();
  response.destroy();
  return { status, headers: response.headers, text };
}
