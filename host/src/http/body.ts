/**
 * Reads a JSON body: within the limit, within its time, and only of a content type that means JSON.
 *
 * The README of the original sends JSON by `curl -d`, which names it a form: so no type and the form type are
 * taken as JSON. Text and multipart are what a web page can send without asking first; those, and
 * everything else, are refused. In strict mode only `application/json` passes, as in the original.
 */
import type { IncomingMessage } from 'node:http';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';

export interface JsonBodyOptions {
  readonly isStrict: boolean;
}

export type JsonObject = Readonly<Record<string, unknown>>;

/** An empty body is `{}`. @throws unsupported_media_type, body_too_large, invalid_json, invalid_request */
export async function readJsonObject(
  incoming: IncomingMessage,
  options: JsonBodyOptions,
): Promise<JsonObject> {
  const type = incoming.headers['content-type'];
  if (!isJsonType(type, options.isStrict)) {
    throw new AppError(
      'unsupported_media_type',
      `Content type "${(type ?? '').slice(0, 200)}" is not taken: send application/json`,
    );
  }
  const bytes = await readBytes(incoming, limits.jsonBodyBytesMax);
  return bytes.length === 0 ? {} : parseObject(bytes);
}

/** Whoever calls an upload JSON has a client that would put quotes around the file. @throws unsupported_media_type */
export function refuseJsonUpload(incoming: IncomingMessage, wanted: string): void {
  const type = incoming.headers['content-type'];
  if (!/^application\/(?:[a-z0-9.+-]+\+)?json\s*(;|$)/i.test(type ?? '')) return;
  throw new AppError(
    'unsupported_media_type',
    `Content type "${(type ?? '').slice(0, 200)}" is not taken: send the file itself as ${wanted}`,
  );
}

function isJsonType(type: string | undefined, isStrict: boolean): boolean {
  if (isStrict) return /^application\/json\s*(;|$)/i.test(type ?? '');
  const [essence = ''] = (type ?? '').toLowerCase().split(';', 1);
  const name = essence.trim();
  return (
    name === '' ||
    name === 'application/json' ||
    name === 'application/x-www-form-urlencoded' ||
    /^application\/[a-z0-9.+-]+\+json$/.test(name)
  );
}

const decoder = new TextDecoder('utf-8', { fatal: true });

function parseObject(bytes: Uint8Array): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(bytes));
  } catch (error) {
    // Without what stands there: V8 quotes it, and it may be a secret's value.
    const [where = ''] =
      / at position \d+(?: \(line \d+ column \d+\))?$/.exec((error as Error).message) ?? [];
    throw new AppError('invalid_json', `The body is no JSON${where}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new AppError('invalid_request', 'the body must be a JSON object');
  }
  return value as JsonObject;
}

/**
 * By events, not by iteration: leaving an iteration early would destroy the socket, and with it the answer that
 * says why.
 */
async function readBytes(incoming: IncomingMessage, bytesMax: number): Promise<Buffer> {
  const announced = Number(incoming.headers['content-length'] ?? 0);
  if (announced > bytesMax) throw tooLarge(bytesMax);
  if (incoming.readableEnded) return Buffer.alloc(0);
  const chunks: Buffer[] = [];
  let size = 0;
  return await new Promise<Buffer>((resolve, reject) => {
    const timer = setTimeout(
      () => finish(new AppError('request_timeout', 'the body came too slowly')),
      limits.jsonBodyMs,
    );
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      if (size > bytesMax) finish(tooLarge(bytesMax));
      else chunks.push(chunk);
    };
    const onEnd = (): void => finish(undefined);
    const onGone = (): void => finish(new AppError('invalid_request', 'the body ended early'));
    const finish = (problem: AppError | undefined): void => {
      clearTimeout(timer);
      incoming.off('data', onData).off('end', onEnd).off('close', onGone).off('error', onGone);
      if (problem !== undefined) reject(problem);
      else resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks));
    };
    incoming.on('data', onData).on('end', onEnd).on('close', onGone).on('error', onGone);
  });
}

function tooLarge(bytesMax: number): AppError {
  return new AppError('body_too_large', `The body is larger than ${bytesMax} bytes`);
}
