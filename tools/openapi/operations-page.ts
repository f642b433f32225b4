/** The operations in docs/api.md: by noun, each with what it takes, what it answers and one command that shows it. */
import type { Answer, Operation } from '@squash/contract/operations/operation';
import { commonErrors, operations } from '@squash/contract/operations/table';
import { z } from 'zod';
import { curlCommand } from './curl.ts';
import { nameShapes } from './shapes.ts';
import { tagOf, tags } from './tags.ts';

export function operationsPage(): string {
  nameShapes();
  const all = Object.values(operations) as Operation[];
  const nouns = tags.map(({ name, description }) => {
    const its = all.filter((operation) => tagOf(operation) === name);
    return `### ${name}\n\n${description}.\n\n${its.map(section).join('\n')}`;
  });
  return [`Any operation may answer the common errors: ${listed(commonErrors)}.\n`, ...nouns].join('\n');
}

function listed(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}

function section(operation: Operation): string {
  const { id, method, path, summary, description, permission, answers, errors } = operation;
  const scope = permission === 'none' ? 'No key is asked for' : `Scope \`${permission}\``;
  const statuses = answers.map(answered).join(', ');
  const lines = [
    `\`${method} ${path}\`: ${summary}.${description === undefined ? '' : ` ${description}`}`,
    [`${scope}.`, ...taken(operation), `Answers ${statuses}.`, ...more(operation)].join(' '),
    ...(errors.length === 0 ? [] : [`Errors: ${listed(errors)}.`]),
  ];
  return `#### ${id}\n\n${lines.join('\n\n')}\n\n\`\`\`sh\n${curlCommand(operation)}\n\`\`\`\n`;
}

function taken({ query, body, upload }: Operation): readonly string[] {
  const names = Object.keys(query?.shape ?? {});
  const shape = nameOf(body);
  return [
    ...(names.length === 0 ? [] : [`Query: ${listed(names)}.`]),
    ...(shape === '' ? [] : [`Body: ${shape}.`]),
    ...(upload === undefined ? [] : [`Body: ${upload.description} (\`${upload.contentType}\`).`]),
  ];
}

function answered({ status, schema, contentType }: Answer): string {
  const shape = contentType === undefined ? nameOf(schema) : `\`${contentType}\``;
  return `${status} ${shape}`.trim();
}

function more({ events, webSocket }: Operation): readonly string[] {
  const names = Object.keys(events ?? {});
  return [
    ...(names.length === 0 ? [] : [`Events: ${listed(names)}.`]),
    ...(webSocket === undefined
      ? []
      : [`A WebSocket, subprotocol \`${webSocket}\`: the command shows its handshake.`]),
  ];
}

/** The shape's name in /openapi.json; empty where it has none. */
function nameOf(schema: z.ZodType | undefined): string {
  if (schema === undefined) return '';
  const element = schema instanceof z.ZodArray ? (schema.element as z.ZodType) : schema;
  const name = z.globalRegistry.get(element)?.id;
  if (name === undefined) return '';
  return element === schema ? `\`${name}\`` : `a list of \`${name}\``;
}
