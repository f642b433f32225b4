/**
 * Compressed bodies: which can be read, and how they are read while they pass.
 *
 * What a newcomer would get wrong: there are two ways. Where something may be replaced the body goes on uncompressed. Where it is
 * only looked at it goes on byte for byte, each piece after what it holds has been seen.
 */
import { type Readable, Transform, type TransformCallback, type Writable } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import { FairShare } from '@squash/base/fair-share';
import { Failure } from '@squash/base/failure';
import type { ByteFilter } from '../flow/pump.ts';
import { tokens } from './headers.ts';
import { Unreadable } from './message.ts';
import { BrokenOff, type OnBytes, pump, type PumpOptions } from '../flow/pump.ts';

/** A body this large when read that is this many times its size on the wire is made to cost time, not to say something. */
const bombBytesMin = 67_108_864;
const bombRatio = 200;

/** 8 MiB are what HTTP allows (RFC 9659); unasked, a frame could claim 128. */
const zstdWindowLogMax = 23;
/**
 * br and zstd remember up to 16 MiB each, however little came: as many at once of all sandboxes.
 */
const largeDecodersMax = 24;

/** It takes nothing that follows behind the end of its encoding, and says so by this number alone. */
type Decoder = Transform & { readonly bytesWritten: number };

const decoders: Readonly<Record<string, () => Decoder>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: () => new EitherInflate(),
  br: createBrotliDecompress,
  zstd: () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: zstdWindowLogMax } }),
};
const moreFollows = 'more follows behind the end of the body’s encoding';
const largeCodings: ReadonlySet<string> = new Set(['br', 'zstd']);
const largeDecoders = new FairShare(largeDecodersMax);

/**
 * Makes what undoes a `Content-Encoding`; undefined where nothing is to be undone. What is made has to be destroyed.
 * @throws Unreadable for codings nobody here knows, and more than one; what is returned throws it where there are too many
 */
export function decoderFor(contentEncoding: string, sandbox: string): (() => Decoder) | undefined {
  // aws-chunked only frames; what it holds is readable as it is.
  const codings = tokens(contentEncoding).filter(
    (coding) => coding !== 'identity' && coding !== 'aws-chunked',
  );
  const [coding, ...more] = codings;
  if (coding === undefined) return undefined;
  const make = Object.hasOwn(decoders, coding) ? decoders[coding] : undefined;
  if (make === undefined || more.length > 0) {
    throw new Unreadable(
      `the body’s encoding ${JSON.stringify(contentEncoding.slice(0, 100))} can not be read`,
    );
  }
  return largeCodings.has(coding) ? () => counted(make, sandbox) : make;
}

function counted(make: () => Decoder, sandbox: string): Decoder {
  if (!largeDecoders.take(sandbox))
    throw new Unreadable('too many bodies in br or zstd are under way at once');
  const decoder = make();
  decoder.once('close', () => largeDecoders.give(sandbox));
  return decoder;
}

/** Of an `Accept-Encoding`, what can be read here at little cost: the program gets the answer uncompressed anyway. */
export function readableEncodings(acceptEncoding: string): string {
  const kept = tokens(acceptEncoding).filter((word) => {
    const coding = (word.split(';')[0] ?? '').trim();
    return coding === 'identity' || (Object.hasOwn(decoders, coding) && !largeCodings.has(coding));
  });
  return kept.length === 0 ? 'identity' : kept.join(', ');
}

/** As `pump`, with the coding undone in between. The sink gets the plain body. */
export async function pumpDecoded(
  source: Readable,
  sink: Writable,
  { decoder, filter, onBytes }: PumpOptions & { readonly decoder: Decoder },
): Promise<void> {
  const unreadable = Promise.withResolvers<never>();
  decoder.on('error', () => unreadable.reject(new Unreadable('the body is not in the encoding it claims')));
  let bytes = 0;
  const count: OnBytes = async (length) => {
    bytes += length;
    await onBytes?.(length);
  };
  const into = async (): Promise<void> => {
    await pump(source, decoder, { onBytes: count });
    decoder.end();
  };
  try {
    await Promise.race([Promise.all([into(), pump(decoder, sink, { filter })]), unreadable.promise]);
    if (decoder.bytesWritten < bytes) throw new Unreadable(moreFollows);
  } catch (error) {
    // The decoder fails at both of its sides; what is wrong is the body.
    if (error instanceof BrokenOff && decoder.errored !== null) await unreadable.promise;
    throw error;
  } finally {
    decoder.destroy();
  }
}

/** As `pump`: the bytes go on as they are, after the filter has seen what they hold. Its output is dropped. */
export async function pumpWatched(
  source: Readable,
  sink: Writable,
  {
    decoder,
    filter,
    onBytes,
  }: { readonly decoder: Decoder; readonly filter: ByteFilter; readonly onBytes: OnBytes },
): Promise<void> {
  const reader = new DecodedReader(decoder, filter);
  try {
    for await (const piece of source.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      await onBytes(piece.length);
      await reader.see(piece);
      if (sink.destroyed) throw new BrokenOff('sink', sink.errored);
      if (!sink.write(piece)) await drained(sink);
    }
    await reader.end();
  } finally {
    decoder.destroy();
  }
}

/** `deflate` is zlib's format, which some servers send without its head and sum. The first two bytes tell. */
class EitherInflate extends Transform {
  #inner: ReturnType<typeof createInflate> | undefined;
  #head: Buffer = Buffer.alloc(0);

  get bytesWritten(): number {
    return this.#inner?.bytesWritten ?? this.#head.length;
  }

  override _transform(piece: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    if (this.#inner !== undefined) return void this.#inner.write(piece, done);
    this.#head = Buffer.concat([this.#head, piece]);
    if (this.#head.length < 2) return done();
    const [first = 0, second = 0] = this.#head;
    const isZlib = (first & 0x0f) === 8 && ((first << 8) | second) % 31 === 0;
    this.#inner = isZlib ? createInflate() : createInflateRaw();
    this.#inner.on('error', (error) => this.destroy(error));
    // What is not taken stops the inner one, and with it the write that waits.
    this.#inner.on('data', (plain: Buffer) => {
      if (!this.push(plain)) this.#inner?.pause();
    });
    this.#inner.write(this.#head, done);
  }

  override _read(size: number): void {
    this.#inner?.resume();
    super._read(size);
  }

  override _flush(done: TransformCallback): void {
    if (this.#inner === undefined)
      return done(this.#head.length === 0 ? null : new Failure('ends_early', 'it ends early'));
    // More followed: it has ended before.
    if (this.#inner.readableEnded) return done();
    this.#inner.once('end', () => done()).end();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#inner?.destroy();
    done(error);
  }
}

class DecodedReader {
  readonly #decoder: Decoder;
  readonly #filter: ByteFilter;
  #failed: unknown;
  #seenBytes = 0;
  #readBytes = 0;

  constructor(decoder: Decoder, filter: ByteFilter) {
    this.#decoder = decoder;
    this.#filter = filter;
    decoder.on('error', () => {
      this.#failed ??= new Unreadable('the body is not in the encoding it claims');
    });
    // A decoder whose output is not taken stops.
    decoder.on('readable', () => this.#take());
  }

  async see(piece: Buffer): Promise<void> {
    this.#seenBytes += piece.length;
    const { promise, resolve } = Promise.withResolvers<void>();
    // Of a decoder that fails, the write that made it fail is never called back.
    this.#decoder.once('close', resolve);
    this.#decoder.write(piece, () => resolve());
    await promise;
    this.#decoder.off('close', resolve);
    this.#take();
    if (this.#decoder.bytesWritten < this.#seenBytes) this.#failed ??= new Unreadable(moreFollows);
    if (this.#failed !== undefined) throw this.#failed;
  }

  async end(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (this.#decoder.closed) resolve();
    this.#decoder.once('end', resolve).once('close', resolve);
    this.#decoder.end();
    this.#take();
    await promise;
    if (this.#failed !== undefined) throw this.#failed;
    this.#filter.end();
  }

  #take(): void {
    try {
      for (let piece: Buffer | null = this.#decoder.read(); piece !== null; piece = this.#decoder.read()) {
        this.#readBytes += piece.length;
        if (this.#readBytes > bombBytesMin && this.#readBytes > this.#seenBytes * bombRatio) {
          throw new Unreadable('the body is far larger than what was sent');
        }
        this.#filter.push(piece);
      }
    } catch (error) {
      this.#failed ??= error;
      this.#decoder.destroy();
    }
  }
}

async function drained(sink: Writable): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const gone = (error?: unknown): void => reject(new BrokenOff('sink', error));
  sink.once('drain', resolve).once('close', gone).once('error', gone);
  try {
    await promise;
  } finally {
    sink.off('drain', resolve).off('close', gone).off('error', gone);
  }
}
