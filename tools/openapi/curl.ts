/**
 * One `curl` command for an operation, as docs/api.md prints it and tests/e2e/api-curl.test.ts runs it.
 *
 * It is made from the schemas alone where they tell enough. A parameter of the address has the value that `usual` has for
 * its name, a body the example of its shape (shapes.ts), a query nothing. What is other, or told by neither, stands in
 * the operation's own `example`; whoever adds an operation that needs one learns it from the error here.
 */
import type { Operation } from '@squash/contract/operations/operation';
import { z } from 'zod';
import { isBinary, isStream } from './content-type.ts';

/** What stands for `{name}`: the same things in all commands, so that a page reads as one story. */
const usual: Readonly<Record<string, string>> = {
  id: 'dev',
  jobId: '1',
  key: 'key_0123456789abcdef',
  label: 'clean',
  process: '1',
  name: '200-tools',
  owner: 'team-a',
  secret: 'API_KEY',
  webhook: 'wh_0123456789abcdef0123',
  volume: 'data',
  mount: 'mnt_0123456789abcdef',
  approval: 'appr_0123456789abcdef0123',
  standing: '1',
  tier: 'guests',
  group: 'family',
  chat: 'family-chat',
  schedule: 'news',
  number: '1',
};

const lineCharsMax = 120;

export function curlCommand(operation: Operation): string {
  const { method, answers, upload, events, webSocket } = operation;
  const file = operation.example?.file ?? 'file';
  const body = bodyOf(operation);
  const given = Object.entries(operation.example?.headers ?? {}).map(([name, value]) => `${name}: ${value}`);
  const answered = answers[0]?.contentType;
  const isSaved = answered !== undefined && isBinary(answered);
  const isFollowed = events !== undefined || webSocket !== undefined || isStream(answered);
  const impliedMethod = upload !== undefined ? 'PUT' : body !== undefined ? 'POST' : 'GET';
  const options = [
    ...(method === impliedMethod ? [] : [`-X ${method}`]),
    ...(isFollowed ? ['-N'] : []),
    ...(webSocket === undefined ? [] : ['--include', '--http1.1']),
    target(operation),
    ...[...given, ...(webSocket === undefined ? [] : handshake(webSocket))].map(
      (header) => `-H ${quoted(header)}`,
    ),
    ...(body === undefined ? [] : [`--json ${quoted(JSON.stringify(body))}`]),
    ...(upload === undefined ? [] : [`-T ${file}`]),
    ...(isSaved ? [`--output ${file}`] : []),
  ];
  return inLines(['curl', ...options]);
}

/** A WebSocket begins as a request; the key is any 16 bytes in base64. */
function handshake(subprotocol: string): readonly string[] {
  return [
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: c2l4dGVlbiBieXRlcy4uLg==',
    `Sec-WebSocket-Protocol: ${subprotocol}`,
  ];
}

function target({ id, path, params, query, example }: Operation): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => {
    const value = example?.params?.[name] ?? usual[name];
    if (value === undefined) throw new Error(`${id}: "example" has to say what {${name}} is`);
    params?.shape[name]?.parse(value);
    return encodeURIComponent(value);
  });
  const asked = new URLSearchParams(example?.query).toString();
  const parsed = query?.safeParse(example?.query ?? {});
  if (parsed?.success === false) throw new Error(`${id}: its example's query: ${parsed.error.message}`);
  const url = `localhost:8080${filled}${asked === '' ? '' : `?${asked}`}`;
  return /[?&;*]/.test(url) ? quoted(url) : url;
}

/** Undefined where none has to be sent. */
function bodyOf({ id, body, example }: Operation): unknown {
  if (body === undefined) return undefined;
  const examples = z.globalRegistry.get(body)?.['examples'];
  const value: unknown = example?.body ?? (Array.isArray(examples) ? examples[0] : undefined);
  const parsed = body.safeParse(value ?? {});
  if (!parsed.success) throw new Error(`${id}: its example's body: ${parsed.error.message}`);
  return value;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** Broken before a word where the line would be too long for a page. */
function inLines(words: readonly string[]): string {
  let text = '';
  let length = 0;
  for (const word of words) {
    const isBroken = length > 0 && length + word.length > lineCharsMax;
    text += isBroken ? ` \\\n  ${word}` : `${text === '' ? '' : ' '}${word}`;
    length = isBroken ? word.length + 2 : length + word.length + 1;
  }
  return text;
}
