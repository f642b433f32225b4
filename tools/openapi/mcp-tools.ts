/**
 * The operations of `/v1` as tools of the Model Context Protocol: names, sentences, JSON Schemas and hints. Whoever serves them needs no
 * more than `_meta` to make a call a request: what stands in the path goes there, of the rest a GET or DELETE has its query, others
 * their body, `new_…` without that beginning.
 */
import type { Operation } from '@squash/contract/operations/operation';
import { operations } from '@squash/contract/operations/table';
import { z } from 'zod';
import { type Json, sentForm } from './named-schemas.ts';

export function mcpTools(): readonly Json[] {
  return (Object.values(operations) as Operation[]).filter(isCall).map(toolOf);
}

/** Asked once, with JSON or nothing, and answered so. Files and streams are for clients that hold bytes. */
function isCall({ dialect, upload, webSocket, answers, path }: Operation): boolean {
  const isPlain =
    answers.some(({ schema, contentType }) => schema !== undefined && contentType === undefined) ||
    answers.every(({ contentType }) => contentType === undefined);
  return (
    dialect === 'native' &&
    path.startsWith('/v1/') &&
    // What the gateway of SSH asks is nobody's else.
    !path.startsWith('/v1/ssh/') &&
    upload === undefined &&
    webSocket === undefined &&
    isPlain
  );
}

function toolOf(operation: Operation): Json {
  const { id, method, path, summary, description, permission } = operation;
  return {
    name: id.replaceAll('.', '_'),
    title: summary,
    description: description === undefined ? summary : `${summary}. ${description}`,
    inputSchema: sentForm(argumentsOf(operation)),
    annotations: {
      readOnlyHint: method === 'GET',
      destructiveHint: method === 'DELETE',
      idempotentHint: method !== 'POST',
      openWorldHint: false,
    },
    _meta: { operation: id, method, path, scope: permission },
  };
}

/** What a body calls as the address does is what that is to become: `new_label` beside `label`. */
function argumentsOf({ params, query, body }: Operation): z.ZodObject {
  const address = { ...params?.shape, ...query?.shape };
  const sent = Object.entries(body?.shape ?? {}).map(([name, schema]) => [
    Object.hasOwn(address, name) ? `new_${name}` : name,
    schema,
  ]);
  return z.strictObject({ ...address, ...(Object.fromEntries(sent) as typeof address) });
}
