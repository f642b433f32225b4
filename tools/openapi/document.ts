/** The OpenAPI 3.1 document, made from the operations: nothing in it is written by hand but its title. */
import { type Dialect, type ErrorCode, errorCatalog, errorStatus } from '@squash/contract/errors';
import {
  execControlSchema,
  execEventSchema,
  execRecordSchema,
  execStartSchema,
  jobInfoSchema,
} from '@squash/contract/exec';
import { moduleInfoSchema } from '@squash/contract/module';
import type { Answer, Operation } from '@squash/contract/operations/operation';
import { commonErrors, operations } from '@squash/contract/operations/table';
import { sandboxInfoSchema } from '@squash/contract/sandbox';
import { z } from 'zod';

type Json = Readonly<Record<string, unknown>>;

/** Answers that many operations give: written once, referred to by name. */
const shared: readonly (readonly [z.ZodType, string])[] = [
  [sandboxInfoSchema, 'SandboxInfo'],
  [execRecordSchema, 'ExecRecord'],
  [jobInfoSchema, 'JobInfo'],
  [moduleInfoSchema, 'Module'],
];

const errorTypes: Readonly<Record<Dialect, string>> = {
  seed: 'application/json',
  native: 'application/problem+json',
};

export function openapiDocument(): Json {
  const paths: Record<string, Record<string, Json>> = {};
  for (const operation of Object.values(operations) as Operation[]) {
    paths[operation.path] = {
      ...paths[operation.path],
      [operation.method.toLowerCase()]: operationObject(operation),
    };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Squash',
      version: '1',
      description:
        'Self-hosted sandboxes for AI agents. Addresses under /cgi-bin are the original Squash Sandbox API; those under /v1 are native.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: 'http://localhost:8080' }],
    security: [{ token: [] }],
    paths,
    components: {
      securitySchemes: { token: { type: 'http', scheme: 'bearer', description: 'SQUASH_AUTH_TOKEN' } },
      schemas: {
        Error: jsonSchema(z.strictObject({ error: z.string(), code: z.enum(codes()) }), 'output'),
        Problem: jsonSchema(
          z.strictObject({
            type: z.string(),
            title: z.string(),
            status: z.int(),
            detail: z.string(),
            code: z.enum(codes()),
          }),
          'output',
        ),
        ...Object.fromEntries(shared.map(([schema, name]) => [name, jsonSchema(schema, 'output')])),
        ExecStart: jsonSchema(execStartSchema, 'input'),
        ExecControl: jsonSchema(execControlSchema, 'input'),
        ExecEvent: jsonSchema(execEventSchema, 'output'),
      },
    },
  };
}

function codes(): [ErrorCode, ...ErrorCode[]] {
  return Object.keys(errorCatalog) as [ErrorCode, ...ErrorCode[]];
}

function operationObject(operation: Operation): Json {
  const parameters = [...parametersOf(operation.params, 'path'), ...parametersOf(operation.query, 'query')];
  return {
    operationId: operation.id,
    summary: operation.summary,
    ...(operation.description === undefined ? {} : { description: operation.description }),
    ...(operation.auth === 'none' ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...requestBody(operation),
    responses: responses(operation),
  };
}

function parametersOf(schema: z.ZodObject | undefined, place: 'path' | 'query'): readonly Json[] {
  if (schema === undefined) return [];
  const { properties = {} } = jsonSchema(schema, 'input') as { properties?: Record<string, Json> };
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: place,
    required: place === 'path',
    ...(description === undefined ? {} : { description }),
    schema: rest,
  }));
}

function requestBody(operation: Operation): Json {
  if (operation.body !== undefined) {
    const schema = jsonSchema(operation.body, 'input');
    return { requestBody: { content: { 'application/json': { schema } } } };
  }
  if (operation.upload === undefined) return {};
  const { contentType, description } = operation.upload;
  return { requestBody: { required: true, description, content: { [contentType]: {} } } };
}

function responses(operation: Operation): Json {
  const all: Record<string, Json> = {};
  for (const answer of operation.answers) all[String(answer.status)] = response(answer);
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

function response(answer: Answer): Json {
  const { description, schema, contentType } = answer;
  if (schema !== undefined) {
    return { description, content: { 'application/json': { schema: answerSchema(schema) } } };
  }
  return { description, ...(contentType === undefined ? {} : { content: { [contentType]: {} } }) };
}

function answerSchema(schema: z.ZodType): Json {
  const name = shared.find(([one]) => one === schema)?.[1];
  if (name !== undefined) return { $ref: `#/components/schemas/${name}` };
  if (schema instanceof z.ZodArray)
    return { type: 'array', items: answerSchema(schema.element as z.ZodType) };
  return jsonSchema(schema, 'output');
}

/** `input`: what a client may send, before defaults and tolerance are applied. */
function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' });
  return rest;
}
