/**
 * The OpenAPI 3.1 document, made from the operations: nothing in it is written by hand but its title, the names of
 * shapes and what the tags say.
 */
import { isDeepStrictEqual } from 'node:util';
import { type Dialect, type ErrorCode, errorCatalog, errorStatus } from '@squash/contract/errors';
import type { Answer, Operation } from '@squash/contract/operations/operation';
import { commonErrors, operations } from '@squash/contract/operations/table';
import { z } from 'zod';
import { nameShapes, webSocketMessages } from './shapes.ts';
import { tagOf, tags } from './tags.ts';

type Json = Readonly<Record<string, unknown>>;

const errorTypes: Readonly<Record<Dialect, string>> = {
  seed: 'application/json',
  native: 'application/problem+json',
};

export function openapiDocument(): Json {
  nameShapes();
  const paths: Record<string, Record<string, Json>> = {};
  const shapes = new Shapes();
  for (const operation of Object.values(operations) as Operation[]) {
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.method.toLowerCase()]: operationObject(operation, shapes),
    };
  }
  const code = z.enum(codes());
  shapes.add('Error', z.strictObject({ error: z.string(), code }));
  shapes.add(
    'Problem',
    z.strictObject({
      type: z.string(),
      title: z.string(),
      status: z.int(),
      detail: z.string().describe('the cause'),
      code,
      remedy: z.string().describe('what the caller can do about it'),
    }),
  );
  return {
    openapi: '3.1.0',
    info: {
      title: 'Squash',
      version: '1',
      description:
        'Self-hosted sandboxes for AI agents. Addresses under /cgi-bin are the original Squash Sandbox API; those under /v1 are native.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: 'http://localhost:8080', description: 'where a daemon listens unless told otherwise' }],
    security: [{ token: [] }],
    tags,
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer', description: 'SQUASH_AUTH_TOKEN' } },
      schemas: shapes.all(),
    },
  };
}

/** The shapes that have a name: each is written once, and everything else refers to it. */
class Shapes {
  readonly #named = new Map<string, Json>();

  /** `input`: what a client may send, before defaults and tolerance are applied. */
  of(schema: z.ZodType, io: 'input' | 'output'): Json {
    const { $schema: _dialect, $defs, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
    for (const [name, shape] of Object.entries($defs ?? {})) this.#put(name, shape);
    const { id: name, ...shape } = referringToComponents(rest);
    if (typeof name !== 'string') return shape;
    this.#put(name, shape);
    return { $ref: `#/components/schemas/${name}` };
  }

  add(name: string, schema: z.ZodType): void {
    this.#put(name, this.of(schema, 'output'));
  }

  all(): Json {
    return Object.fromEntries([...this.#named].sort(([one], [other]) => (one < other ? -1 : 1)));
  }

  #put(name: string, shape: Json): void {
    const { id: _name, ...rest } = referringToComponents(shape);
    const known = this.#named.get(name);
    if (known !== undefined && !isDeepStrictEqual(known, rest)) {
      throw new Error(`two shapes are called "${name}": what is sent and what is answered differ`);
    }
    this.#named.set(name, rest);
  }
}

/** zod keeps named shapes beside the schema, OpenAPI in one place for all. */
function referringToComponents(schema: Json): Json {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/$defs/', '"#/components/schemas/')) as Json;
}

function codes(): [ErrorCode, ...ErrorCode[]] {
  return Object.keys(errorCatalog) as [ErrorCode, ...ErrorCode[]];
}

function operationObject(operation: Operation, shapes: Shapes): Json {
  const parameters = [
    ...parametersOf(operation.params, 'path', shapes),
    ...parametersOf(operation.query, 'query', shapes),
  ];
  return {
    operationId: operation.id,
    tags: [tagOf(operation)],
    summary: operation.summary,
    ...(operation.description === undefined ? {} : { description: operation.description }),
    ...(operation.permission === 'none' ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...requestBody(operation, shapes),
    responses: responses(operation, shapes),
    ...webSocket(operation, shapes),
  };
}

function parametersOf(
  schema: z.ZodObject | undefined,
  place: 'path' | 'query',
  shapes: Shapes,
): readonly Json[] {
  if (schema === undefined) return [];
  const { properties = {} } = shapes.of(schema, 'input') as { properties?: Record<string, Json> };
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: place,
    required: place === 'path',
    ...(description === undefined ? {} : { description }),
    schema: rest,
  }));
}

function requestBody({ body, upload }: Operation, shapes: Shapes): Json {
  if (body !== undefined) {
    // A body that may be `{}` may be left out.
    const required = !body.safeParse({}).success;
    return {
      requestBody: { required, content: { 'application/json': { schema: shapes.of(body, 'input') } } },
    };
  }
  if (upload === undefined) return {};
  const schema = { type: 'string', format: 'binary' };
  return {
    requestBody: {
      required: true,
      description: upload.description,
      content: { [upload.contentType]: { schema } },
    },
  };
}

function responses(operation: Operation, shapes: Shapes): Json {
  const all: Record<string, Json> = {};
  for (const answer of operation.answers) all[String(answer.status)] = response(answer, shapes);
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of new Set<ErrorCode>([...operation.errors, ...commonErrors])) {
    const status = errorStatus(code, operation.dialect);
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  const name = operation.dialect === 'seed' ? 'Error' : 'Problem';
  for (const [status, statusCodes] of [...byStatus].sort(([one], [other]) => one - other)) {
    all[String(status)] = {
      description: statusCodes.map((code) => `${code}: ${errorCatalog[code].summary}`).join('; '),
      content: { [errorTypes[operation.dialect]]: { schema: { $ref: `#/components/schemas/${name}` } } },
    };
  }
  return all;
}

function response({ description, schema, contentType }: Answer, shapes: Shapes): Json {
  if (schema !== undefined) {
    return { description, content: { 'application/json': { schema: shapes.of(schema, 'output') } } };
  }
  if (contentType === undefined) return { description };
  return { description, content: { [contentType]: { schema: { type: 'string' } } } };
}

/** OpenAPI has no words for WebSockets: what each side sends, by name. */
function webSocket(operation: Operation, shapes: Shapes): Json {
  if (operation.webSocket === undefined) return {};
  const { client, server } = webSocketMessages;
  return {
    'x-websocket': {
      subprotocol: operation.webSocket,
      client: client.map((schema) => shapes.of(schema, 'input')),
      server: server.map((schema) => shapes.of(schema, 'output')),
    },
  };
}
