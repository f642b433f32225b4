/**
 * An open file of SFTP. Clients read and write in order, in many small requests: so one request of the API carries as many of them as
 * follow each other, and another offset begins the next.
 *
 * A stream that nobody uses for a while is ended, because the daemon has few places for them; the next use begins another.
 */
import type { ClientRequest, IncomingMessage } from 'node:http';
import { ApiError, refusalOf } from '../daemon.ts';
import { accepted, type RemoteFiles } from './remote-files.ts';

const idleMs = 2_000;

interface WriteStream {
  readonly request: ClientRequest;
  readonly answer: Promise<IncomingMessage>;
  /** Where the next byte goes. */
  position: number;
}

interface ReadStream {
  readonly chunks: AsyncIterator<unknown>;
  readonly over: AbortController;
  rest: Buffer;
  position: number;
  hasEnded: boolean;
}

export interface OpenMode {
  readonly reads: boolean;
  readonly writes: boolean;
  readonly appends: boolean;
}

export class OpenFile {
  readonly path: Buffer;
  readonly mode: OpenMode;
  readonly #files: RemoteFiles;
  #writing: WriteStream | undefined;
  #reading: ReadStream | undefined;
  /** Where a read began behind the last one: one who goes on reads all of it. */
  #readTo = 0;
  #idle: NodeJS.Timeout | undefined;
  /** What was ended while nobody used it. */
  #ending: Promise<void> = Promise.resolve();

  constructor(files: RemoteFiles, path: Buffer, mode: OpenMode) {
    this.#files = files;
    this.path = path;
    this.mode = mode;
  }

  /** Resolves when the connection to the daemon has taken the bytes. @throws ApiError */
  async write(offset: number, data: Buffer): Promise<void> {
    await this.#wake();
    this.#endReading();
    if (this.#writing !== undefined && !this.mode.appends && this.#writing.position !== offset) {
      await this.flush();
    }
    const stream = (this.#writing ??= this.#openWriting(offset));
    const taken = new Promise<'taken'>((resolve, reject) => {
      stream.request.write(data, (error) => (error ? reject(error) : resolve('taken')));
    });
    // An answer before the end of the body is a refusal.
    const first = await Promise.race([taken, stream.answer]).catch(() => undefined);
    if (first !== 'taken') return await this.#refused(stream);
    stream.position += data.length;
    this.#rest();
  }

  /** An empty buffer is the end of the file. @throws ApiError */
  async read(offset: number, length: number): Promise<Buffer> {
    await this.flush();
    if (this.#reading?.position !== offset) this.#endReading();
    const goesOn = offset === 0 || offset === this.#readTo;
    this.#readTo = offset + length;
    const stream = (this.#reading ??= await this.#openReading(offset, goesOn ? undefined : length));
    if (stream === undefined) return Buffer.alloc(0);
    const parts: Buffer[] = [];
    let have = 0;
    while (have < length) {
      if (stream.rest.length === 0 && !(await this.#fill(stream))) break;
      const part = stream.rest.subarray(0, length - have);
      stream.rest = stream.rest.subarray(part.length);
      parts.push(part);
      have += part.length;
    }
    stream.position += have;
    this.#readTo = offset + have;
    // What has grown meanwhile is found by another request.
    if (have === 0 || stream.hasEnded) this.#endReading();
    this.#rest();
    return parts.length === 1 ? (parts[0] ?? Buffer.alloc(0)) : Buffer.concat(parts);
  }

  /** Resolves when all that was written is there. @throws ApiError */
  async flush(): Promise<void> {
    await this.#wake();
    await this.#endWriting();
  }

  /** @throws ApiError */
  async close(): Promise<void> {
    this.#endReading();
    await this.flush();
  }

  /** The client has gone: what it wrote is there as far as it came. */
  abandon(): void {
    clearTimeout(this.#idle);
    this.#endReading();
    this.#writing?.request.destroy();
  }

  #openWriting(offset: number): WriteStream {
    const { outgoing, answer } = this.#files.write(this.path, { at: this.mode.appends ? 'end' : offset });
    return { request: outgoing, answer, position: offset };
  }

  async #refused(stream: WriteStream): Promise<never> {
    this.#writing = undefined;
    const answer = await stream.answer;
    stream.request.destroy();
    throw await refusalOf(answer);
  }

  /** Undefined at the end of the file. */
  async #openReading(offset: number, length: number | undefined): Promise<ReadStream | undefined> {
    const over = new AbortController();
    const range = { offset, ...(length === undefined ? {} : { length }) };
    const answer = await this.#files.read(this.path, range, over.signal);
    if (answer.statusCode === 416) {
      answer.resume();
      return undefined;
    }
    if ((answer.statusCode ?? 0) >= 300) throw await refusalOf(answer);
    const chunks: AsyncIterator<unknown> = answer[Symbol.asyncIterator]();
    return { chunks, over, rest: Buffer.alloc(0), position: offset, hasEnded: false };
  }

  async #fill(stream: ReadStream): Promise<boolean> {
    const next = await stream.chunks.next().catch(() => {
      throw new ApiError('guest_failed', 'the file could not be read to its end');
    });
    if (next.done === true) {
      stream.hasEnded = true;
      return false;
    }
    stream.rest = next.value as Buffer;
    return true;
  }

  #endReading(): void {
    const stream = this.#reading;
    this.#reading = undefined;
    if (stream === undefined || stream.hasEnded) return;
    stream.over.abort();
    stream.chunks.return?.().catch(() => undefined);
  }

  async #endWriting(): Promise<void> {
    const stream = this.#writing;
    if (stream === undefined) return;
    this.#writing = undefined;
    stream.request.end();
    await accepted(stream.answer);
  }

  /** From here on until `#rest` the streams stay. @throws what their end behind the client's back brought */
  async #wake(): Promise<void> {
    clearTimeout(this.#idle);
    const ending = this.#ending;
    this.#ending = Promise.resolve();
    await ending;
  }

  #rest(): void {
    this.#idle = setTimeout(() => {
      this.#endReading();
      this.#ending = this.#endWriting();
      // Told by the next use.
      this.#ending.catch(() => undefined);
    }, idleMs);
  }
}
