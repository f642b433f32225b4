/**
 * What one operation of the API is, as data. Routing, parsing, OpenAPI and the tests of every answer are made
 * from these; the operation's id is also the handler's name, the log event and the metric's label, so that one
 * grep finds the whole path.
 */
import type { z } from 'zod';
import type { Dialect, ErrorCode } from '../errors.ts';
import type { Scope } from '../scope.ts';

export interface Answer {
  readonly status: number;
  readonly description: string;
  /** JSON of this shape; without one the answer has no body or the named type. */
  readonly schema?: z.ZodType;
  /** Instead of JSON. */
  readonly contentType?: string;
}

export interface Operation {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With `{name}` for parameters. */
  readonly path: string;
  /** How its errors are spelt. */
  readonly dialect: Dialect;
  readonly summary: string;
  readonly description?: string;
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  /** A JSON body of this shape. An absent body counts as `{}`. */
  readonly body?: z.ZodObject;
  /** A body that is handed on unread: not JSON, not under the JSON limit. */
  readonly upload?: { readonly contentType: string; readonly description: string };
  readonly answers: readonly Answer[];
  /** What a stream of server-sent events carries, by the event's name; `message` is one without a name, a string one whose data is text. */
  readonly events?: Readonly<Record<string, z.ZodType>>;
  readonly errors: readonly ErrorCode[];
  /** The least scope that a caller needs. `none`: whoever asks is answered, and need not say who he is. */
  readonly permission: Scope | 'none';
  /** A WebSocket with this subprotocol: served on upgrade only. */
  readonly webSocket?: string;
  readonly example?: Example;
}

/** What `docs/api.md` asks for, where that can not be told from the schemas: see tools/openapi/curl.ts. */
export interface Example {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The name of the file that is sent or kept. */
  readonly file?: string;
}

/** The operations of one noun, by id. */
export type Operations = Readonly<Record<string, Operation>>;

export function defineOperation<const T extends Operation>(operation: T): T {
  return operation;
}

type Parsed<T> = T extends z.ZodType ? z.output<T> : undefined;
export type ParamsOf<T extends Operation> = Parsed<T['params']>;
export type QueryOf<T extends Operation> = Parsed<T['query']>;
export type BodyOf<T extends Operation> = Parsed<T['body']>;
