/**
 * The OpenAPI 3.1 document, made from the operations: nothing in it is written by hand but its title, the names of
 * shapes and what the tags say.
 */
import { type Dialect, type ErrorCode, errorCatalog, errorStatus } from '@squash/contract/errors';
import type { Answer, Operation } from '@squash/contract/operations/operation';
import { commonErrors, operations } from '@squash/contract/operations/table';
import { z } from 'zod';
import { isBinary } from './content-type.ts';
import { type Json, NamedSchemas } from './named-schemas.ts';
import { nameShapes, webSocketMessages } from './shapes.ts';
import { tagOf, tags } from './tags.ts';

const errorTypes: Readonly<Record<Dialect, string>> = {
  seed: 'application/json',
  native: 'application/problem+json',
};
const errorNames: Readonly<Record<Dialect, string>> = { seed: 'Error', native: 'Problem' };

export function openapiDocument(): Json {
  nameShapes();
  const paths: Record<string, Record<string, Json>> = {};
  const shapes = new NamedSchemas();
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
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'SQUASH_AUTH_TOKEN, or a key of at least the scope that the operation names',
        },
      },
      responses: Object.fromEntries(errorResponses()),
      schemas: shapes.all(),
    },
  };
}

function codes(): [ErrorCode, ...ErrorCode[]] {
  return Object.keys(errorCatalog) as [ErrorCode, ...ErrorCode[]];
}

function operationObject(operation: Operation, shapes: NamedSchemas): Json {
  const parameters = [
    ...parametersOf(operation.params, 'path', shapes),
    ...parametersOf(operation.query, 'query', shapes),
    ...resumption(operation),
  ];
  return {
    operationId: operation.id,
    tags: [tagOf(operation)],
    summary: operation.summary,
    ...(operation.description === undefined ? {} : { description: operation.description }),
    // The role of a bearer is the least scope that its key must have.
    security: operation.permission === 'none' ? [] : [{ token: [operation.permission] }],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...requestBody(operation, shapes),
    responses: responses(operation, shapes),
    'x-errors': operation.errors,
    ...events(operation, shapes),
    ...webSocket(operation, shapes),
  };
}

function parametersOf(
  schema: z.ZodObject | undefined,
  place: 'path' | 'query',
  shapes: NamedSchemas,
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

/** Browsers send it by themselves when they open a stream again. */
function resumption({ events }: Operation): readonly Json[] {
  if (events === undefined) return [];
  const description = 'the `id` of the last event that was received: the stream goes on behind it';
  return [{ name: 'Last-Event-ID', in: 'header', required: false, description, schema: { type: 'string' } }];
}

function requestBody({ body, upload }: Operation, shapes: NamedSchemas): Json {
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

function responses(operation: Operation, shapes: NamedSchemas): Json {
  const all: Record<string, Json> = {};
  // One status may have answers of several content types.
  for (const [status, answers] of Map.groupBy(operation.answers, (answer) => answer.status)) {
    const contents = answers.map((answer) => contentOf(answer, shapes));
    const content = Object.assign({}, ...contents, operation.events === undefined ? {} : eventStream) as Json;
    const description = answers.map((answer) => answer.description).join('; ');
    all[String(status)] = { description, ...(Object.keys(content).length === 0 ? {} : { content }) };
  }
  for (const code of [...operation.errors, ...commonErrors]) {
    const status = errorStatus(code, operation.dialect);
    all[String(status)] = { $ref: `#/components/responses/${errorNames[operation.dialect]}${status}` };
  }
  return all;
}

const eventStream = { 'text/event-stream': { schema: { type: 'string' } } };

function contentOf(
  { schema, contentType }: Pick<Answer, 'schema' | 'contentType'>,
  shapes: NamedSchemas,
): Json {
  if (schema !== undefined) return { 'application/json': { schema: shapes.of(schema, 'output') } };
  if (contentType === undefined) return {};
  return {
    [contentType]: { schema: { type: 'string', ...(isBinary(contentType) ? { format: 'binary' } : {}) } },
  };
}

/** One for each status of each dialect. Which of its codes an operation may answer says `x-errors`, beside those that all may. */
function errorResponses(): readonly [string, Json][] {
  return (['seed', 'native'] as const).flatMap((dialect) => {
    const schema = { $ref: `#/components/schemas/${errorNames[dialect]}` };
    const byStatus = Map.groupBy(codes(), (code) => errorStatus(code, dialect));
    return [...byStatus]
      .sort(([one], [other]) => one - other)
      .map(([status, its]): [string, Json] => [
        `${errorNames[dialect]}${status}`,
        {
          description: its.map((code) => `${code}: ${errorCatalog[code].summary}`).join('; '),
          content: { [errorTypes[dialect]]: { schema } },
        },
      ]);
  });
}

/** OpenAPI 3.1 has no words for server-sent events: what each carries, by name. */
function events(operation: Operation, shapes: NamedSchemas): Json {
  if (operation.events === undefined) return {};
  const described = Object.entries(operation.events).map(([name, schema]) => [
    name,
    shapes.of(schema, 'output'),
  ]);
  return { 'x-events': Object.fromEntries(described) };
}

/** OpenAPI has no words for WebSockets: what each side sends, by name. */
function webSocket(operation: Operation, shapes: NamedSchemas): Json {
  if (operation.webSocket === undefined) return {};
  const messages = webSocketMessages[operation.webSocket];
  if (messages === undefined) throw new Error(`nobody says what "${operation.webSocket}" sends`);
  const { client, server } = messages;
  return {
    'x-websocket': {
      subprotocol: operation.webSocket,
      client: client.map((schema) => shapes.of(schema, 'input')),
      server: server.map((schema) => shapes.of(schema, 'output')),
    },
  };
}
