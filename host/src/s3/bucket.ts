/**
 * A bucket as plain operations: list, look, read, write. What comes from it is another machine's word: names, sizes
 * and digests are checked by whoever uses them, and every answer has its limit in bytes and time.
 *
 * The library signs requests, splits large files and repeats what failed. Checksums of its own are off: services
 * other than Amazon's refuse them, and digests of whole files, which `bucket-modules.ts` keeps beside them, say more.
 */
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  GetObjectCommand,
  type GetObjectCommandOutput,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { Failure } from '@squash/base/failure';
import { FairTurns } from '@squash/base/fair-turns';
import { pause } from '@squash/base/pause';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import type { S3Config } from '../config/config.ts';
import { boundAnswers } from './bounded-answers.ts';

/** Two parts are on their way and a third is filled. The least that S3 takes; the longest file has 3,277. */
const partBytes = 5_242_880;
const pieceBytes = 262_144;
const connectMs = 5_000;
/** Of one request that carries no file, with what the library repeats. */
const smallMsMax = 60_000;
const silentMsMax = 30_000;
const fileMsMax = 3_600_000;
/** In a row, without a byte between them. */
const failuresMax = 4;
const retryMs = 250;

export interface FoundObject {
  readonly key: string;
  readonly size: number;
  readonly modifiedMs: number;
}

/** What is stated beside an object. */
export interface ObjectFacts {
  readonly size: number;
  /** 64 hexadecimal digits; undefined: whoever wrote it stated none. */
  readonly sha256: string | undefined;
  /** The rest of it, as somebody wrote it. */
  readonly marks: Readonly<Record<string, string>>;
}

export class Bucket implements Disposable {
  readonly #name: string;
  readonly #prefix: string;
  readonly #client: S3Client;
  readonly #files = new FairTurns({ all: 2, each: 2 });

  constructor({ bucket, endpoint, region, prefix, keyId, key }: S3Config) {
    this.#name = bucket;
    this.#prefix = prefix;
    this.#client = new S3Client({
      region,
      ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
      credentials: { accessKeyId: keyId, secretAccessKey: key.reveal() },
      maxAttempts: 3,
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      requestHandler: {
        connectionTimeout: connectMs,
        socketTimeout: silentMsMax,
        requestTimeout: smallMsMax,
        throwOnRequestTimeout: true,
      },
    });
    boundAnswers(this.#client);
  }

  /** Objects right below a folder, or all behind a prefix, however many pages they take; `take` says whether one more is wanted. */
  async list(
    folder: string,
    take: (found: FoundObject) => boolean,
    { signal, isDeep = false }: { readonly signal: AbortSignal; readonly isDeep?: boolean },
  ): Promise<void> {
    const abortSignal = AbortSignal.any([signal, AbortSignal.timeout(smallMsMax)]);
    let token: string | undefined;
    do {
      const page = await this.#client.send(
        new ListObjectsV2Command({
          Bucket: this.#name,
          Prefix: this.#prefix + folder,
          Delimiter: isDeep ? undefined : '/',
          ContinuationToken: token,
        }),
        { abortSignal },
      );
      for (const { Key: key = '', Size: size = -1, LastModified: at } of page.Contents ?? []) {
        if (!key.startsWith(this.#prefix + folder)) continue;
        const modifiedMs = at?.getTime() ?? 0;
        if (!take({ key: key.slice(this.#prefix.length), size, modifiedMs })) return;
      }
      if (page.IsTruncated !== true) return;
      if (page.NextContinuationToken === undefined || page.NextContinuationToken === token)
        throw new Failure('bucket_answer', 'the list of objects goes on and does not say where');
      token = page.NextContinuationToken;
    } while (!abortSignal.aborted);
  }

  async look(key: string, signal: AbortSignal): Promise<ObjectFacts | undefined> {
    try {
      const abortSignal = AbortSignal.any([signal, AbortSignal.timeout(smallMsMax)]);
      const found = await this.#client.send(
        new HeadObjectCommand({ Bucket: this.#name, Key: this.#prefix + key }),
        { abortSignal },
      );
      return factsOf(found);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  /** A small object whole. @throws where it is longer than `bytesMax` */
  async readSmall(key: string, bytesMax: number, signal: AbortSignal): Promise<Buffer | undefined> {
    const abortSignal = AbortSignal.any([signal, AbortSignal.timeout(smallMsMax)]);
    for (let failures = 1; ; failures += 1) {
      const answer = await this.#get(key, { abortSignal });
      if (answer === undefined) return undefined;
      try {
        return await readWhole(answer, { key, bytesMax, abortSignal });
      } catch (error) {
        // The library tries a request again, and not an answer that broke off.
        if (error instanceof AppError || failures >= failuresMax || abortSignal.aborted) throw error;
        await pause(retryMs * 2 ** failures, abortSignal);
      }
    }
  }

  /** Into an empty file, going on where a connection broke. Undefined: there is none. */
  async read(
    key: string,
    file: FileHandle,
    {
      signal,
      checkSize,
    }: { readonly signal: AbortSignal; readonly checkSize: (bytes: number) => Promise<void> },
  ): Promise<{ readonly digest: string; readonly facts: ObjectFacts } | undefined> {
    await new Promise<void>((resolve) => this.#files.take('', resolve));
    try {
      const whole = AbortSignal.any([signal, AbortSignal.timeout(fileMsMax)]);
      return await new Reading(key, file, checkSize).run(
        (headers, abortSignal) => this.#get(key, { ...headers, abortSignal }),
        whole,
      );
    } finally {
      this.#files.done('');
    }
  }

  async #get(
    key: string,
    { abortSignal, ...headers }: { abortSignal: AbortSignal; Range?: string; IfMatch?: string },
  ): Promise<GetObjectCommandOutput | undefined> {
    try {
      const command = new GetObjectCommand({ Bucket: this.#name, Key: this.#prefix + key, ...headers });
      return await this.#client.send(command, { abortSignal });
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async writeSmall(key: string, data: Buffer, signal: AbortSignal): Promise<void> {
    const Metadata = { sha256: createHash('sha256').update(data).digest('hex') };
    await this.#client.send(
      new PutObjectCommand({ Bucket: this.#name, Key: this.#prefix + key, Body: data, Metadata }),
      { abortSignal: AbortSignal.any([signal, AbortSignal.timeout(smallMsMax)]) },
    );
  }

  /** All or nothing: a file that is no longer `sha256` at its end becomes no object. */
  async write(
    key: string,
    {
      file,
      sha256,
      marks = {},
    }: {
      readonly file: FileHandle;
      readonly sha256: string;
      readonly marks?: Readonly<Record<string, string>>;
    },
    signal: AbortSignal,
  ): Promise<void> {
    const abort = new AbortController();
    const end = (): void => abort.abort();
    const whole = AbortSignal.any([signal, AbortSignal.timeout(fileMsMax)]);
    whole.addEventListener('abort', end, { once: true });
    try {
      whole.throwIfAborted();
      await new Upload({
        client: this.#client,
        params: {
          Bucket: this.#name,
          Key: this.#prefix + key,
          Body: Readable.from(piecesOf(file, sha256)),
          Metadata: { ...marks, sha256 },
        },
        partSize: partBytes,
        queueSize: 2,
        abortController: abort,
      }).done();
    } finally {
      whole.removeEventListener('abort', end);
    }
  }

  async remove(key: string, signal: AbortSignal): Promise<void> {
    await this.#client.send(new DeleteObjectCommand({ Bucket: this.#name, Key: this.#prefix + key }), {
      abortSignal: AbortSignal.any([signal, AbortSignal.timeout(smallMsMax)]),
    });
  }

  [Symbol.dispose](): void {
    this.#client.destroy();
  }
}

async function readWhole(
  answer: GetObjectCommandOutput,
  {
    key,
    bytesMax,
    abortSignal,
  }: { readonly key: string; readonly bytesMax: number; readonly abortSignal: AbortSignal },
): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of bodyOf(answer, abortSignal)) {
    bytes += piece.length;
    if (bytes > bytesMax)
      throw new AppError('layer_corrupt', `Object "${key}" is longer than ${bytesMax} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** One object on its way into a file. */
class Reading {
  readonly #key: string;
  readonly #file: FileHandle;
  readonly #checkSize: (bytes: number) => Promise<void>;
  #hash = createHash('sha256');
  #at = 0;
  #first: { readonly facts: ObjectFacts; readonly tag: string | undefined } | undefined;

  constructor(key: string, file: FileHandle, checkSize: (bytes: number) => Promise<void>) {
    this.#key = key;
    this.#file = file;
    this.#checkSize = checkSize;
  }

  async run(
    get: (
      headers: { Range?: string; IfMatch?: string },
      signal: AbortSignal,
    ) => Promise<GetObjectCommandOutput | undefined>,
    signal: AbortSignal,
  ): Promise<{ readonly digest: string; readonly facts: ObjectFacts } | undefined> {
    for (let failures = 0; ; ) {
      const began = this.#at;
      try {
        const range = this.#at === 0 ? {} : { Range: `bytes=${this.#at}-` };
        const match = this.#at === 0 || this.#first?.tag === undefined ? {} : { IfMatch: this.#first.tag };
        const answer = await get({ ...range, ...match }, signal);
        if (answer === undefined) return undefined;
        await this.#take(answer, signal);
        const facts = this.#first?.facts;
        if (facts !== undefined && this.#at === facts.size)
          return { digest: this.#hash.digest('hex'), facts };
        throw new Failure('bucket_answer', `"${this.#key}" ended after ${this.#at} bytes`);
      } catch (error) {
        // What the file system or a limit says is no better the next time.
        if (error instanceof AppError || isDiskError(error)) throw error;
        failures = this.#at > began ? 1 : failures + 1;
        if (failures >= failuresMax || signal.aborted) throw error;
        if (isChanged(error)) await this.#again();
        await pause(retryMs * 2 ** failures, signal);
      }
    }
  }

  async #take(answer: GetObjectCommandOutput, signal: AbortSignal): Promise<void> {
    if (this.#first === undefined || this.#at === 0) await this.#begin(answer);
    // A service that knows no ranges sends all of it again.
    else if (answer.ContentRange?.startsWith(`bytes ${this.#at}-`) !== true) {
      await this.#again();
      await this.#begin(answer);
    }
    const size = this.#first?.facts.size ?? 0;
    for await (const piece of bodyOf(answer, signal)) {
      if (this.#at + piece.length > size)
        throw new AppError('layer_corrupt', `Object "${this.#key}" is longer than it says`);
      await writeAll(this.#file, piece, this.#at);
      this.#hash.update(piece);
      this.#at += piece.length;
    }
  }

  async #begin(answer: GetObjectCommandOutput): Promise<void> {
    const size = answer.ContentLength ?? -1;
    if (size <= 0 || size > limits.uploadBytesMax) {
      if (answer.Body instanceof Readable) answer.Body.destroy();
      throw new AppError('layer_corrupt', `Object "${this.#key}" is of ${size} bytes, which no module is`);
    }
    await this.#checkSize(size);
    this.#first = { facts: factsOf(answer), tag: answer.ETag };
  }

  async #again(): Promise<void> {
    await this.#file.truncate(0);
    this.#hash = createHash('sha256');
    this.#at = 0;
    this.#first = undefined;
  }
}

async function writeAll(file: FileHandle, piece: Buffer, at: number): Promise<void> {
  for (let written = 0; written < piece.length; )
    written += (await file.write(piece, written, piece.length - written, at + written)).bytesWritten;
}

async function* piecesOf(file: FileHandle, sha256: string): AsyncGenerator<Buffer, void, void> {
  const hash = createHash('sha256');
  for (let at = 0; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafeSlow(pieceBytes), 0, pieceBytes, at);
    if (bytesRead === 0) break;
    const piece = buffer.subarray(0, bytesRead);
    hash.update(piece);
    at += bytesRead;
    yield piece;
  }
  if (hash.digest('hex') !== sha256)
    throw new AppError('layer_corrupt', 'the file has changed while it was read');
}

/** The library ends a request when it is told to, and not what it has answered with: that is done here. */
async function* bodyOf(
  { Body: body }: GetObjectCommandOutput,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, void> {
  if (!(body instanceof Readable)) throw new Failure('bucket_answer', 'the answer has no body');
  const end = (): void => void body.destroy(new Failure('aborted', 'it was given up'));
  const timer = setTimeout(
    () => body.destroy(new Failure('ETIMEDOUT', 'nothing came for too long')),
    silentMsMax,
  );
  signal.addEventListener('abort', end, { once: true });
  try {
    if (signal.aborted) end();
    for await (const piece of body) {
      timer.refresh();
      yield piece as Buffer;
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
    body.destroy();
  }
}

function factsOf({
  ContentLength: size = -1,
  Metadata: marks = {},
}: Pick<GetObjectCommandOutput, 'ContentLength' | 'Metadata'>): ObjectFacts {
  const stated = marks['sha256'];
  const isDigest = stated !== undefined && /^[0-9a-f]{64}$/.test(stated);
  return { size, sha256: isDigest ? stated : undefined, marks };
}

/** That one object is; where the bucket itself is missing, that is a fault. */
function isMissing(error: unknown): boolean {
  return error instanceof Error && (error.name === 'NoSuchKey' || error.name === 'NotFound');
}

function isChanged(error: unknown): boolean {
  return error instanceof Error && error.name === 'PreconditionFailed';
}

function isDiskError(error: unknown): boolean {
  return (
    error instanceof Error && 'code' in error && ['ENOSPC', 'EDQUOT', 'EIO'].includes(String(error.code))
  );
}
