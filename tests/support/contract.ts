/**
 * Holds an answer of the daemon against the contract: a status that the operation documents, a body of the shape
 * it promises, an error whose code fits its status. Used on every answer of the API suites.
 */
import assert from 'node:assert/strict';
import { type Dialect, type ErrorCode, errorCatalog, errorStatus } from '@squash/contract/errors';
import type { Operation } from '@squash/contract/operations/operation';
import { commonErrors, notOffered, operations } from '@squash/contract/operations/table';
import { z } from 'zod';

export interface ReceivedAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
}

const seedError = z.strictObject({ error: z.string().min(1), code: z.string() });
const problem = z.strictObject({
  type: z.literal('about:blank'),
  title: z.string().min(1),
  status: z.int(),
  detail: z.string().min(1),
  remedy: z.string().min(1),
  code: z.string(),
});

/** The operation that a request reaches, if any. */
function operationFor(method: string, target: string): Operation | undefined {
  const [path = ''] = target.split('?', 1);
  const name = method === 'HEAD' ? 'GET' : method;
  return (Object.values(operations) as Operation[]).find(
    (operation) => matches(operation.path, path) && (operation.method === name || operation.id === 'health'),
  );
}

function matches(template: string, path: string): boolean {
  const pattern = template.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+');
  return new RegExp(`^${pattern}/?$`).test(path);
}

/** @throws AssertionError that says which promise the answer breaks */
export function expectContract(method: string, target: string, answer: ReceivedAnswer): void {
  const where = `${method} ${target} answered ${answer.status} ${answer.text.slice(0, 300)}`;
  const operation = operationFor(method, target);
  const ofStatus = operation?.answers.filter(({ status }) => status === answer.status) ?? [];
  const good = ofStatus.find(({ contentType }) => contentType === answer.contentType) ?? ofStatus[0];
  if (good !== undefined) {
    if (method === 'HEAD' || (good.schema === undefined && good.contentType === undefined)) {
      assert.equal(answer.text, '', where);
      return;
    }
    if (operation?.events !== undefined && answer.contentType === 'text/event-stream') {
      expectEvents(operation.events, answer.text, where);
      return;
    }
    assert.equal(answer.contentType, good.contentType ?? 'application/json', where);
    if (good.schema !== undefined) {
      const parsed = good.schema.safeParse(JSON.parse(answer.text));
      assert.ok(parsed.success, `${where}: ${parsed.error?.message}`);
    }
    return;
  }
  assert.ok(answer.status >= 400, `${where}: not a documented status`);
  if (method !== 'HEAD') expectError(operation, target, { answer, where });
}

/** The last event may be cut off where the client went away. */
function expectEvents(events: Readonly<Record<string, z.ZodType>>, text: string, where: string): void {
  for (const block of text.split('\n\n').slice(0, -1)) {
    const fields = block
      .split('\n')
      .map((line) => line.split(/: ?(.*)/s, 2))
      .filter(([name]) => name !== '');
    const data = fields.flatMap(([name, value = '']) => (name === 'data' ? [value] : [])).join('\n');
    const event = fields.find(([name]) => name === 'event')?.[1] ?? 'message';
    if (fields.length === 0) continue;
    const schema = events[event];
    assert.ok(schema, `${where}: the event "${event}" is not documented`);
    const parsed = schema.safeParse(schema instanceof z.ZodString ? data : JSON.parse(data));
    assert.ok(parsed.success, `${where}: ${event}: ${parsed.error?.message}`);
  }
}

function expectError(
  operation: Operation | undefined,
  target: string,
  { answer, where }: { readonly answer: ReceivedAnswer; readonly where: string },
): void {
  const dialect: Dialect = target.startsWith('/cgi-bin') ? 'seed' : 'native';
  assert.equal(
    answer.contentType,
    dialect === 'seed' ? 'application/json' : 'application/problem+json',
    where,
  );
  const parsed = (dialect === 'seed' ? seedError : problem).safeParse(JSON.parse(answer.text));
  assert.ok(parsed.success, `${where}: ${parsed.error?.message}`);
  const { code } = parsed.data;
  assert.ok(Object.hasOwn(errorCatalog, code), `${where}: unknown code`);
  assert.equal(answer.status, errorStatus(code as ErrorCode, dialect), `${where}: status of ${code}`);
  const documented: readonly string[] = [...commonErrors, ...(operation?.errors ?? [])];
  const isMissingPart = code === 'not_offered' && isNotOffered(target);
  assert.ok(documented.includes(code) || isMissingPart, `${where}: ${code} is not documented there`);
  const sentence = 'error' in parsed.data ? parsed.data.error : parsed.data.detail;
  assert.doesNotMatch(sentence, /\n$/, where);
}

function isNotOffered(target: string): boolean {
  const [path = ''] = target.split('?', 1);
  return Object.keys(notOffered).some((template) =>
    new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}(/|$)`).test(path),
  );
}
