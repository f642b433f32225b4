/**
 * File operations through PID 1: one connection each, closed when the caller stops.
 *
 * A caller that breaks out of an iteration, aborts, or whose source throws, closes the connection; PID 1 then ends the
 * worker. A write that was cut off leaves what had arrived, one that replaces leaves what was there.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Buffer } from 'node:buffer';
import {
  encodeDataHeader,
  encodeFields,
  type FieldFrameName,
  type Frame,
} from '@squash/contract/guest/codec';
import { fileTypes, frameDataBytesMax } from '@squash/contract/guest/frames';
import { breach, type FrameConnection } from './frame-connection.ts';
import {
  creation,
  expectOk,
  parseEvent,
  parseExtracted,
  parseListed,
  parseListEnd,
  parseMatch,
  parseStat,
  quoted,
  target,
  type Values,
  valuesOf,
} from './file-frames.ts';
import type {
  AsUser,
  Creation,
  Extraction,
  FileChange,
  FileListing,
  FileMatch,
  FileSearch,
  FileStat,
  FileWriting,
  GuestFilePath,
  GuestFileSystem,
  OpenedFile,
  Placing,
} from './guest.ts';
import { refuse } from './guest-error.ts';

interface RequestOptions {
  readonly signal?: AbortSignal | undefined;
  readonly readAheadBytesMax?: number;
}
type Request = (frame: Uint8Array, options?: RequestOptions) => Promise<FrameConnection>;

/**
 * Pieces written between two looks at what came in. A write that the kernel takes at once ends in the same turn of
 * the event loop, so a fast reader at the other end would keep its own refusal from being read.
 */
const piecesPerTurn = 16;
/** Of a watch. PID 1 drops what is not taken, and a thousand watches that nobody reads may wait at once. */
const watchReadAheadBytesMax = 16_384;

/** One a second for a day. A PID 1 that sends them without a pause would else keep the daemon reading. */
const progressFramesMax = 86_400;

export interface FileDeadlines {
  /** How long a request may wait for its first answer. */
  readonly answerMs: number;
  /** How long work may stand still that takes its time: a tree that is removed, a piece of a file that waits for room. */
  readonly workMs: number;
}

interface Work {
  readonly subject: string;
  readonly deadlineMs?: number;
  readonly signal?: AbortSignal | undefined;
}

export class GuestFiles implements GuestFileSystem {
  readonly #request: Request;
  readonly #deadlines: FileDeadlines;

  constructor(request: Request, deadlines: FileDeadlines) {
    this.#request = request;
    this.#deadlines = deadlines;
  }

  async *read(
    path: GuestFilePath,
    range: { readonly offset?: number; readonly length?: number } = {},
  ): AsyncGenerator<Buffer, void, void> {
    const { offset, length } = range;
    const values = [...target(path, {}), ...valuesOf({ offset, length })];
    using connection = await this.#request(encodeFields('fileRead', values));
    yield* this.#data(connection, { subject: `${quoted(path)} can't be read`, bytesMax: length });
  }

  async open(
    path: GuestFilePath,
    options: AsUser & { readonly offset?: number; readonly length?: number } = {},
  ): Promise<OpenedFile> {
    const { offset, length } = options;
    const subject = `${quoted(path)} can't be read`;
    const values = [...target(path, options), ...valuesOf({ offset, length, describe: true })];
    const connection = await this.#request(encodeFields('fileRead', values));
    try {
      const frame = await connection.next(this.#deadlines.answerMs);
      if (frame.type !== 'entry') throw refuse(frame, subject);
      return {
        stat: parseStat(frame.fields),
        data: () => this.#data(connection, { subject, bytesMax: length }),
        [Symbol.dispose]: () => connection.close(),
      };
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  async write(
    path: GuestFilePath,
    data: AsyncIterable<Uint8Array>,
    options: FileWriting = {},
  ): Promise<void> {
    const { how = 'truncate', offset, size, exclusive, over } = options;
    const manner =
      offset === undefined ? { atomic: how === 'replace', append: how === 'append' } : { offset, size };
    const values = [...creation(path, options), ...valuesOf({ ...manner, exclusive, ...over })];
    using connection = await this.#request(encodeFields('fileWrite', values));
    expectOk(await this.#upload(connection, data), `${quoted(path)} can't be written`);
  }

  async extract(
    path: GuestFilePath,
    tar: AsyncIterable<Uint8Array>,
    options: Extraction = {},
  ): Promise<{ readonly entries: number; readonly bytes: number }> {
    const { createParents, entriesMax, bytesMax, owner } = options;
    const ids = owner === 'keep' ? { keepOwner: true } : { owner: owner?.uid, ownerGroup: owner?.gid };
    const values = [...target(path, options), ...valuesOf({ createParents, entriesMax, bytesMax, ...ids })];
    using connection = await this.#request(encodeFields('fileExtract', values));
    const frame = await this.#upload(connection, tar);
    if (frame.type !== 'ok') throw refuse(frame, `The archive can't be unpacked below ${quoted(path)}`);
    return parseExtracted(frame.fields);
  }

  async *archive(
    path: GuestFilePath,
    options: AsUser = {},
    signal?: AbortSignal,
  ): AsyncGenerator<Buffer, void, void> {
    using connection = await this.#request(encodeFields('fileArchive', target(path, options)));
    using _ = abortion(connection, signal);
    yield* this.#data(connection, { subject: `${quoted(path)} can't be archived` });
  }

  async *upper(signal?: AbortSignal): AsyncGenerator<Buffer, void, void> {
    using connection = await this.#request(encodeFields('fileUpper', target('/', {})));
    using _ = abortion(connection, signal);
    yield* this.#data(connection, { subject: "What was written in the microVM can't be taken out" });
  }

  async stat(
    path: GuestFilePath,
    options: AsUser & { readonly followLinks?: boolean } = {},
  ): Promise<FileStat> {
    const values = [...target(path, options), ...valuesOf({ followLinks: options.followLinks })];
    using connection = await this.#request(encodeFields('fileStat', values));
    const frame = await connection.next(this.#deadlines.answerMs);
    if (frame.type !== 'entry') throw refuse(frame, `${quoted(path)} can't be looked at`);
    return parseStat(frame.fields);
  }

  async *list(
    path: GuestFilePath,
    options: FileListing = {},
    signal?: AbortSignal,
  ): AsyncGenerator<{ readonly path: Buffer; readonly stat: FileStat }, boolean, void> {
    const { depth = 1, entriesMax, pattern, after } = options;
    const values = [...target(path, options), ...valuesOf({ depth, entriesMax, pattern, after })];
    using connection = await this.#request(encodeFields('fileList', values));
    using _ = abortion(connection, signal);
    for (let told = 0; ; told += 1) {
      const frame = await this.#next(connection);
      if (frame.type === 'end') return parseListEnd(frame.fields);
      if (frame.type !== 'entry') throw refuse(frame, `${quoted(path)} can't be listed`);
      if (told === entriesMax) throw breach('more entries than were asked for');
      yield parseListed(frame.fields, depth);
    }
  }

  async *search(
    path: GuestFilePath,
    options: FileSearch,
    signal?: AbortSignal,
  ): AsyncGenerator<FileMatch, boolean, void> {
    const { text, isRegex, ignoresCase, pattern, matchesMax, bytesMax, lineBytesMax } = options;
    const how = { text, regex: isRegex, ignoreCase: ignoresCase, pattern };
    const bounds = { entriesMax: matchesMax, bytesMax, length: lineBytesMax };
    const values = [...target(path, options), ...valuesOf({ ...how, ...bounds })];
    using connection = await this.#request(encodeFields('fileSearch', values));
    using _ = abortion(connection, signal);
    for (let told = 0; ; told += 1) {
      const frame = await this.#next(connection);
      if (frame.type === 'end') return parseListEnd(frame.fields);
      if (frame.type !== 'entry') throw refuse(frame, `${quoted(path)} can't be searched`);
      if (told === matchesMax) throw breach('more matches than were asked for');
      yield parseMatch(frame.fields);
    }
  }

  makeDirectory(path: GuestFilePath, options: Creation = {}): Promise<void> {
    return this.#simple('fileMakeDirectory', creation(path, options), {
      subject: `${quoted(path)} can't be made`,
    });
  }

  sync(path: GuestFilePath, signal?: AbortSignal): Promise<void> {
    const subject = `What ${quoted(path)} lies on can't be written out`;
    return this.#simple('fileSync', target(path, {}), {
      subject,
      deadlineMs: this.#deadlines.workMs,
      signal,
    });
  }

  link(
    path: GuestFilePath,
    text: GuestFilePath,
    options: AsUser & { readonly isHard?: boolean; readonly createParents?: boolean } = {},
  ): Promise<void> {
    const { isHard, createParents } = options;
    const fileType = isHard === true ? fileTypes.file : fileTypes.symlink;
    const values = [...target(path, options), ...valuesOf({ target: text, fileType, createParents })];
    return this.#simple('fileLink', values, { subject: `${quoted(path)} can't be made` });
  }

  move(from: GuestFilePath, to: GuestFilePath, options: Placing = {}): Promise<void> {
    const { createParents, exclusive } = options;
    const values = [...target(from, options), ...valuesOf({ target: to, createParents, exclusive })];
    return this.#simple('fileMove', values, { subject: `${quoted(from)} can't be moved` });
  }

  copy(
    { from, to }: { readonly from: GuestFilePath; readonly to: GuestFilePath },
    options: Placing & { readonly recursive?: boolean } = {},
    signal?: AbortSignal,
  ): Promise<void> {
    const { createParents, exclusive, recursive } = options;
    const values = [
      ...target(from, options),
      ...valuesOf({ target: to, createParents, exclusive, recursive }),
    ];
    const deadlineMs = this.#deadlines.workMs;
    return this.#simple('fileCopy', values, {
      subject: `${quoted(from)} can't be copied`,
      deadlineMs,
      signal,
    });
  }

  change(
    path: GuestFilePath,
    options: AsUser & {
      readonly mode?: number;
      readonly owner?: Creation['owner'];
      readonly recursive?: boolean;
      readonly followLinks?: boolean;
      readonly size?: number;
      readonly mtimeMs?: number;
    },
    signal?: AbortSignal,
  ): Promise<void> {
    const { mode, owner, recursive, followLinks, size, mtimeMs } = options;
    const values = [
      ...target(path, options),
      ...valuesOf({ mode, owner: owner?.uid, ownerGroup: owner?.gid, recursive, size, mtimeMs }),
      ...valuesOf({ followLinks: followLinks === false ? 0 : 1 }),
    ];
    const deadlineMs = this.#deadlines.workMs;
    return this.#simple('fileAttributes', values, {
      subject: `${quoted(path)} can't be changed`,
      deadlineMs,
      signal,
    });
  }

  remove(
    path: GuestFilePath,
    options: AsUser & { readonly recursive?: boolean } = {},
    signal?: AbortSignal,
  ): Promise<void> {
    const values = [...target(path, options), ...valuesOf({ recursive: options.recursive })];
    const { answerMs, workMs } = this.#deadlines;
    const deadlineMs = options.recursive === true ? workMs : answerMs;
    return this.#simple('fileRemove', values, {
      subject: `${quoted(path)} can't be removed`,
      deadlineMs,
      signal,
    });
  }

  async watch(
    path: GuestFilePath,
    options: AsUser & { readonly recursive?: boolean } = {},
    signal?: AbortSignal,
  ): Promise<AsyncGenerator<{ readonly change: FileChange; readonly path: Buffer }, void, void>> {
    const subject = `${quoted(path)} can't be watched`;
    const values = [...target(path, options), ...valuesOf({ recursive: options.recursive })];
    const connection = await this.#request(encodeFields('fileWatch', values), {
      signal,
      readAheadBytesMax: watchReadAheadBytesMax,
    });
    const aborted = abortion(connection, signal);
    try {
      expectOk(await connection.next(this.#deadlines.answerMs), subject);
    } catch (error) {
      aborted[Symbol.dispose]();
      connection.close();
      throw error;
    }
    return events(connection, aborted, subject);
  }

  async #simple(type: FieldFrameName, values: Values, work: Work): Promise<void> {
    const { subject, deadlineMs = this.#deadlines.answerMs, signal } = work;
    using connection = await this.#request(encodeFields(type, values), { signal });
    using _ = abortion(connection, signal);
    expectOk(await this.#next(connection, deadlineMs), subject);
  }

  /** Past frames that only say that the work goes on. */
  async #next(connection: FrameConnection, deadlineMs = this.#deadlines.answerMs): Promise<Frame> {
    for (let passed = 0; passed < progressFramesMax; passed += 1) {
      const frame = await connection.next(deadlineMs);
      if (frame.type !== 'progress') return frame;
    }
    throw breach('it works on for ever');
  }

  async *#data(
    connection: FrameConnection,
    { subject, bytesMax }: { readonly subject: string; readonly bytesMax?: number | undefined },
  ): AsyncGenerator<Buffer, void, void> {
    using _ = connection;
    let left = bytesMax ?? Number.POSITIVE_INFINITY;
    for (;;) {
      const frame = await this.#next(connection);
      if (frame.type === 'end') return;
      if (frame.kind !== 'data' || frame.type !== 'data') throw refuse(frame, subject);
      left -= frame.data.length;
      if (frame.data.length === 0 || left < 0) throw breach('more or less of a file than was asked for');
      yield Buffer.from(frame.data.buffer, frame.data.byteOffset, frame.data.length);
    }
  }

  /** Sends all, and returns the answer. PID 1 may refuse at any byte; then the rest of the data is not fetched. */
  async #upload(connection: FrameConnection, data: AsyncIterable<Uint8Array>): Promise<Frame> {
    let answer: Frame | undefined;
    let failure: unknown;
    const answered = this.#answerOf(connection).then(
      (frame) => {
        answer = frame;
      },
      (error: unknown) => {
        failure = error;
      },
    );
    const isAnswered = (): boolean => answer !== undefined || failure !== undefined;
    const { workMs } = this.#deadlines;
    let pieces = 0;
    for await (const chunk of data) {
      for (let at = 0; at < chunk.length && !isAnswered(); at += frameDataBytesMax) {
        const piece = chunk.subarray(at, at + frameDataBytesMax);
        connection.post(encodeDataHeader('data', piece.length));
        await connection.send(piece, workMs);
        pieces += 1;
        if (pieces % piecesPerTurn === 0) await nextTurn();
      }
      if (isAnswered()) break;
    }
    if (!isAnswered()) await connection.send(encodeFields('end', []), workMs);
    const timer = connection.failAfter(workMs);
    await answered;
    clearTimeout(timer);
    if (answer === undefined) throw failure;
    return answer;
  }

  /** Without a deadline: while data is sent, the sender's holds. */
  async #answerOf(connection: FrameConnection): Promise<Frame> {
    for (let passed = 0; passed < progressFramesMax; passed += 1) {
      const frame = await connection.next();
      if (frame.type !== 'progress') return frame;
    }
    throw breach('it works on for ever');
  }
}

/** Ends the connection with the signal, until it is disposed of. */
function abortion(connection: FrameConnection, signal: AbortSignal | undefined): Disposable {
  const abort = (): void => connection.fail(signal?.reason);
  signal?.addEventListener('abort', abort, { once: true });
  if (signal?.aborted === true) abort();
  return { [Symbol.dispose]: () => signal?.removeEventListener('abort', abort) };
}

async function* events(
  connection: FrameConnection,
  aborted: Disposable,
  subject: string,
): AsyncGenerator<{ readonly change: FileChange; readonly path: Buffer }, void, void> {
  try {
    for (;;) {
      const frame = await connection.next();
      if (frame.type === 'end') return;
      if (frame.type !== 'event') throw refuse(frame, subject);
      yield parseEvent(frame.fields);
    }
  } finally {
    aborted[Symbol.dispose]();
    connection.close();
  }
}
