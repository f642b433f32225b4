/** From what came in to values that can't be wrong: the same for requests and for WebSockets. */
import { AppError } from '@squash/contract/errors';
import { issueSentence } from '@squash/contract/issue-sentence';
import type { Operation } from '@squash/contract/operations/operation';
import { safeParse } from '@squash/contract/safe-parse';
import { includesScope, type Scope } from '@squash/contract/scope';
import type { SentenceSubject } from '@squash/contract/seed-sentences';
import type { z } from 'zod';
import type { JsonObject } from './body.ts';
import type { Caller } from './caller.ts';

/** @throws forbidden */
export function checkScope({ method, path, permission }: Operation, { scope }: Caller): void {
  if (permission === 'none' || includesScope(scope, permission)) return;
  throw new AppError(
    'forbidden',
    `${method} ${path} needs the scope "${permission}", and the key has "${scope}"`,
  );
}

/** For what a parameter asks for on top of its operation. @throws forbidden */
export function needScope({ scope }: Caller, needed: Scope, what: string): void {
  if (includesScope(scope, needed)) return;
  throw new AppError('forbidden', `${what} needs the scope "${needed}", and the key has "${scope}"`);
}

/** An id that can't exist is an id that does not exist; other parameters say what is wrong with them. */
export function parseParams(operation: Operation, raw: Readonly<Record<string, string>>): unknown {
  if (operation.params === undefined) return undefined;
  const parsed = operation.params.safeParse(raw);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const name = String(issue?.path[0] ?? '');
  const value = (raw[name] ?? '').slice(0, 200);
  if (name === 'id')
    throw new AppError('sandbox_not_found', `Cannot find sandbox "${value}"`, { subject: value });
  if (name === 'name') throw new AppError('invalid_request', `"${value}" is no module name`);
  throw new AppError('invalid_request', issue?.message ?? `invalid ${name}`);
}

/** The first issue's sentence is the answer: schemas word them as the original does. */
export function parsePart(schema: z.ZodObject | undefined, value: unknown): unknown {
  if (schema === undefined) return undefined;
  const parsed = safeParse(schema, value, { error: issueSentence });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new AppError('invalid_request', issue?.message ?? 'the request is malformed');
}

/** The schema library passes such a key over in silence, and with it what it was to say. @throws invalid_request */
export function refuseProto(body: JsonObject): void {
  const values: unknown[] = [body];
  for (let value = values.pop(); value !== undefined; value = values.pop()) {
    if (typeof value !== 'object' || value === null) continue;
    if (Object.hasOwn(value, '__proto__')) throw new AppError('invalid_request', '"__proto__" is no key');
    for (const each of Object.values(value)) if (typeof each === 'object') values.push(each);
  }
}

/** What a page may open without headers: a WebSocket, or a stream of events. */
export function takesTicket({ method, webSocket, events }: Operation): boolean {
  return method === 'GET' && (webSocket !== undefined || events !== undefined);
}

/** The gate has looked at a ticket; to the operation it is no parameter. */
export function queryOf(
  operation: Operation,
  raw: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  if (!takesTicket(operation)) return raw;
  const { ticket: _ticket, ...query } = raw;
  return query;
}

/** What the original's sentences name, from the body. */
export function subjectOf(body: JsonObject | undefined): SentenceSubject {
  const text = (key: string): string | undefined => {
    const value = body?.[key];
    return typeof value === 'string' ? value.slice(0, 200) : undefined;
  };
  const id = text('id');
  const module = text('module');
  const label = text('label');
  return {
    ...(id === undefined ? {} : { sandbox: id }),
    ...(module === undefined ? {} : { module }),
    ...(label === undefined ? {} : { label }),
  };
}

/** Keys that the operation does not know. */
export function unknownFields(operation: Operation, body: JsonObject | undefined): readonly string[] {
  if (body === undefined || operation.body === undefined) return [];
  const { shape } = operation.body;
  return Object.keys(body).filter((key) => !Object.hasOwn(shape, key));
}
