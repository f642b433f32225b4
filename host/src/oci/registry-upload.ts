/**
 * Uploads to a registry: what it has is not sent, a blob goes in pieces, and goes on where it broke off if the registry still knows
 * how far it was; else it begins anew. Whatever a registry says of its state, it checks the digest at the end, and so does who pulls.
 */
import { createReadStream } from 'node:fs';
import { AppError } from '@squash/contract/errors';
import { manifestType } from './image-out.ts';
import type { ImageTarget, OutgoingBlob } from './image-source.ts';
import { digestOf } from './manifests.ts';
import type { Answered } from './registry-request.ts';
import type { RegistrySession } from './registry-session.ts';

/** So much at once: what a connection that breaks may cost. */
const pieceBytes = 1 << 24;
const locationBytesMax = 16_384;

export class RegistryUpload implements ImageTarget {
  readonly #session: RegistrySession;

  constructor(session: RegistrySession) {
    this.#session = session;
  }

  async has(digest: string, signal: AbortSignal): Promise<boolean> {
    return await this.#session.patiently(signal, async () => {
      const asked = { what: `blobs/${digest}`, method: 'HEAD', told: [404] } as const;
      const answer = await this.#session.ask(asked, signal);
      answer.body.destroy();
      return answer.status === 200;
    });
  }

  async blob(blob: OutgoingBlob, onBytes: (bytes: number) => void, signal: AbortSignal): Promise<void> {
    const upload = new BlobUpload(this.#session, blob, onBytes);
    let tries = 0;
    await this.#session.patiently(
      signal,
      async () => {
        tries += 1;
        // Its answer may have been all that was lost.
        if (tries > 1 && (await this.has(blob.digest, signal))) upload.isWhole();
        else await upload.goOn(signal);
      },
      () => upload.furthest,
    );
  }

  async manifest(bytes: Buffer, signal: AbortSignal): Promise<void> {
    const digest = digestOf(bytes);
    const what = `manifests/${this.#session.reference.version}`;
    await this.#session.patiently(signal, async () => {
      const head = { what, method: 'HEAD', headers: { accept: manifestType }, told: [404] } as const;
      const found = await this.#session.ask(head, signal);
      found.body.destroy();
      if (found.status === 200 && found.header('docker-content-digest') === digest) return;
      const headers = { 'content-type': manifestType };
      const body = bytes.toString('utf8');
      const answer = await this.#session.ask({ what, method: 'PUT', headers, body }, signal);
      answer.body.destroy();
      const own = answer.header('docker-content-digest');
      if (own === undefined || own === digest) return;
      throw new AppError(
        'registry_unavailable',
        `Cannot push image "${this.#session.reference.name}": ${answer.url.host} has kept it as ${own.slice(0, 80)}, and it is ${digest}`,
      );
    });
  }
}

/** Where an upload is, and how far. */
interface Place {
  readonly url: URL;
  readonly sent: number;
}

class BlobUpload {
  readonly #session: RegistrySession;
  readonly #blob: OutgoingBlob;
  readonly #onBytes: (bytes: number) => void;
  #place: Place | undefined;
  #told = 0;
  /** That the registry has ever said it has. */
  furthest = 0;

  constructor(session: RegistrySession, blob: OutgoingBlob, onBytes: (bytes: number) => void) {
    this.#session = session;
    this.#blob = blob;
    this.#onBytes = onBytes;
  }

  /** From where it broke off, or from its beginning, to its end. */
  async goOn(signal: AbortSignal): Promise<void> {
    const { size } = this.#blob;
    const broken = this.#place;
    this.#place = undefined;
    let place =
      (broken === undefined ? undefined : await this.#resumed(broken, signal)) ?? (await this.#begin(signal));
    for (;;) {
      this.#reached(place.sent);
      const length = Math.min(pieceBytes, size - place.sent);
      const isLast = place.sent + length === size;
      this.#place = place;
      const answer = await this.#send(place, { length, isLast }, signal);
      if (isLast) break;
      place = { url: this.#locationOf(answer), sent: place.sent + length };
    }
    this.isWhole();
  }

  isWhole(): void {
    this.#reached(this.#blob.size);
  }

  #reached(sent: number): void {
    this.#onBytes(sent - this.#told);
    this.#told = sent;
    this.furthest = Math.max(this.furthest, sent);
  }

  async #begin(signal: AbortSignal): Promise<Place> {
    const answer = await this.#session.ask({ what: 'blobs/uploads/', method: 'POST', body: '' }, signal);
    return { url: this.#locationOf(answer), sent: 0 };
  }

  /** Undefined where the registry knows nothing of it any more. */
  async #resumed({ url }: Place, signal: AbortSignal): Promise<Place | undefined> {
    const told = [400, 404, 405, 416];
    const answer = await this.#session.ask({ what: url, told }, signal);
    answer.body.destroy();
    const last = /^(?:bytes=)?0-(\d{1,15})$/.exec(answer.header('range') ?? '')?.[1];
    if (answer.status !== 204 || last === undefined) return undefined;
    // `0-0` is what registries say of nothing, too.
    const sent = last === '0' ? 0 : Number(last) + 1;
    return sent > this.#blob.size ? undefined : { url: this.#locationOf(answer, url), sent };
  }

  async #send(
    { url, sent }: Place,
    { length, isLast }: { readonly length: number; readonly isLast: boolean },
    signal: AbortSignal,
  ): Promise<Answered> {
    const { path, digest } = this.#blob;
    const answer = await this.#session.ask(
      {
        what: isLast ? withDigest(url, digest) : url,
        method: isLast ? 'PUT' : 'PATCH',
        told: [404, 416],
        headers: {
          'content-type': 'application/octet-stream',
          ...(length > 0 && { 'content-range': `${sent}-${sent + length - 1}` }),
        },
        body:
          length === 0
            ? ''
            : { bytes: length, open: () => createReadStream(path, { start: sent, end: sent + length - 1 }) },
      },
      signal,
    );
    answer.body.destroy();
    if (answer.status < 300) return answer;
    // It has forgotten the upload, or has another part of it: the next try finds out.
    throw this.#unavailable(`${answer.url.host} knows nothing of the upload any more`);
  }

  /** Where the registry wants it; what it sends us to is judged as any other place that it sends us to. */
  #locationOf(answer: Answered, otherwise?: URL): URL {
    const location = answer.header('location') ?? otherwise?.href ?? '';
    const url =
      location === '' || location.length > locationBytesMax ? null : URL.parse(location, answer.url.href);
    if (url !== null) return url;
    throw this.#unavailable(`${answer.url.host} does not say where its layers go`);
  }

  #unavailable(what: string): AppError {
    const { name } = this.#session.reference;
    return new AppError('registry_unavailable', `Cannot push image "${name}": ${what}`);
  }
}

/** As it came: a registry may have signed it. */
function withDigest({ href, search }: URL, digest: string): URL {
  return new URL(`${href}${search === '' ? '?' : '&'}digest=${encodeURIComponent(digest)}`);
}
