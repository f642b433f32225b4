/**
 * Fetches a file over HTTP, as a hostile place may serve it: bounded, resumed where the server can, repeated with growing pauses
 * where it fails in a way that may pass. The file is whole or there is an error; what it holds is the caller's to check.
 */
import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { Failure } from '@squash/base/failure';

const attemptsMax = 6;
const firstPauseMs = 300;
const pauseMsMax = 10_000;
/** Without a byte. */
const stallMs = 30_000;
const retriedStatuses = new Set([408, 425, 429, 500, 502, 503, 504]);

export interface DownloadRequest {
  /** May hold a name and a password, which no message shows. */
  readonly url: string;
  readonly file: string;
  readonly bytesMax: number;
  readonly onBytes?: (done: number, total: number | undefined) => void;
}

/** What is known of the file between attempts. */
interface Progress {
  readonly descriptor: number;
  bytes: number;
  /** Of the version that `bytes` are of; none: nothing can be resumed. */
  validator: string | undefined;
}

/** An attempt that another one may mend. */
class Passing extends Failure {
  readonly afterMs: number;

  constructor(message: string, afterMs = 0) {
    super('download_failed', message);
    this.afterMs = afterMs;
  }
}

/** @throws with the address, what was wrong and how often it was tried */
export async function download(request: DownloadRequest, signal: AbortSignal): Promise<void> {
  const progress: Progress = { descriptor: openSync(request.file, 'w'), bytes: 0, validator: undefined };
  try {
    for (let attempt = 1; ; attempt += 1) {
      try {
        await attemptOnce(request, progress, signal);
        return;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof Passing)) throw error;
        if (attempt === attemptsMax)
          throw new Failure('download_failed', `${error.message} (tried ${attempt} times)`, { cause: error });
        const grown = firstPauseMs * 2 ** (attempt - 1) * (0.75 + Math.random() / 2);
        await pause(Math.min(pauseMsMax, Math.max(grown, error.afterMs)), undefined, { signal });
      }
    }
  } finally {
    closeSync(progress.descriptor);
  }
}

async function attemptOnce(request: DownloadRequest, progress: Progress, signal: AbortSignal): Promise<void> {
  using stall = new StallTimer();
  const ended = AbortSignal.any([signal, stall.signal]);
  const name = shown(request.url);
  const response = await open(request, progress, ended);
  const isRest = response.status === 206 && startOf(response) === progress.bytes;
  if (response.status === 206 && !isRest) {
    progress.validator = undefined;
    throw new Passing(`${name}: the server sent another part than was asked for`);
  }
  if (!isRest) {
    ftruncateSync(progress.descriptor, 0);
    progress.bytes = 0;
    progress.validator = validatorOf(response);
  }
  const length = response.headers.get('content-length');
  const total = length === null ? undefined : progress.bytes + Number(length);
  if (total !== undefined && total > request.bytesMax) throw tooLarge(request);
  if (response.body === null) throw new Passing(`${name}: an answer without content`);
  try {
    for await (const part of response.body) {
      stall.restart();
      if (progress.bytes + part.length > request.bytesMax) throw tooLarge(request);
      write(progress, part);
      request.onBytes?.(progress.bytes, total);
    }
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Passing(`${name}: broke off after ${progress.bytes} bytes: ${reason(error)}`);
  }
  if (total !== undefined && progress.bytes !== total)
    throw new Passing(`${name}: ended after ${progress.bytes} of ${total} bytes`);
}

async function open(request: DownloadRequest, progress: Progress, signal: AbortSignal): Promise<Response> {
  const { url, headers } = withoutCredentials(request.url);
  // The archive's own bytes are what the checksum is of.
  headers.set('accept-encoding', 'identity');
  if (progress.bytes > 0 && progress.validator !== undefined) {
    headers.set('range', `bytes=${progress.bytes}-`);
    headers.set('if-range', progress.validator);
  }
  const name = shown(request.url);
  let response: Response;
  try {
    response = await fetch(url, { headers, signal });
  } catch (error) {
    throw new Passing(`${name}: ${reason(error)}`);
  }
  if (url.startsWith('https:') && !response.url.startsWith('https:')) {
    await response.body?.cancel();
    throw new Failure('download_failed', `${name}: leads to "${shown(response.url)}", which is not https`);
  }
  if (response.status === 200 || response.status === 206) return response;
  await response.body?.cancel();
  const sentence = `${name}: the server answered ${response.status}`;
  if (response.status === 416) {
    progress.validator = undefined;
    throw new Passing(sentence);
  }
  if (!retriedStatuses.has(response.status)) throw new Failure('download_failed', sentence);
  throw new Passing(sentence, Number(response.headers.get('retry-after') ?? 0) * 1_000 || 0);
}

/** An address without its name and password, for messages. */
export function shown(address: string): string {
  const url = new URL(address);
  url.username = '';
  url.password = '';
  return url.href;
}

function withoutCredentials(address: string): { readonly url: string; readonly headers: Headers } {
  const { username, password } = new URL(address);
  const headers = new Headers();
  if (username !== '' || password !== '') {
    const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    headers.set('authorization', `Basic ${Buffer.from(pair).toString('base64')}`);
  }
  return { url: shown(address), headers };
}

/** A weak tag says nothing of single bytes. */
function validatorOf(response: Response): string | undefined {
  const tag = response.headers.get('etag');
  if (tag !== null && !tag.startsWith('W/')) return tag;
  return response.headers.get('last-modified') ?? undefined;
}

function startOf(response: Response): number | undefined {
  const start = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1];
  return start === undefined ? undefined : Number(start);
}

function write(progress: Progress, part: Uint8Array): void {
  for (let at = 0; at < part.length; ) {
    const count = writeSync(progress.descriptor, part, at, part.length - at, progress.bytes);
    at += count;
    progress.bytes += count;
  }
}

function tooLarge({ url, bytesMax }: DownloadRequest): Failure {
  return new Failure(
    'download_too_large',
    `${shown(url)}: is larger than ${bytesMax} bytes, four times what the preset expects`,
  );
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // fetch hides the system's own word.
  return error.cause instanceof Error ? error.cause.message || error.cause.name : error.message;
}

/** Ends what brings no byte for a while. */
class StallTimer {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor() {
    const cause = new Failure('download_stalled', `no byte for ${stallMs / 1_000} s`);
    this.#timer = setTimeout(() => this.#controller.abort(cause), stallMs);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  restart(): void {
    this.#timer.refresh();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
