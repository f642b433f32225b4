/**
 * File operations through PID 1: one connection each, closed when the caller stops.
 *
 * A caller that breaks out of an iteration, or whose source throws, closes the connection; PID 1 then kills the
 * worker. A write that was cut off leaves what had arrived.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Buffer } from 'node:buffer';
import {
  encodeDataHeader,
  encodeFields,
  type Field,
  type FieldFrameName,
  type Frame,
  FrameError,
} from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import { type FieldName, fileTypes, frameDataBytesMax, guestLimits } from '@squash/contract/guest/frames';
import { breach, type FrameConnection } from './frame-connection.ts';
import type { FileStat, GuestFilePath } from './guest.ts';
import { refuse } from './guest-error.ts';

type Values = readonly (readonly [FieldName, number | string | Uint8Array])[];
type Request = (frame: Uint8Array, signal?: AbortSignal) => Promise<FrameConnection>;
export type FileChange = 'created' | 'changed' | 'removed' | 'moved';

const idMax = 4_294_967_295;
const nameBytesMax = 255;
const changes: readonly FileChange[] = ['created', 'changed', 'removed', 'moved'];
const typeNames = new Map<number, FileStat['type']>(
  Object.entries(fileTypes).map(([name, value]) => [value, name as FileStat['type']]),
);

/**
 * Pieces written between two looks at what came in. A write that the kernel takes at once ends in the same turn of
 * the event loop, so a fast reader at the other end would keep its own refusal from being read.
 */
const piecesPerTurn = 16;

export interface FileDeadlines {
  /** How long a request may wait for its first answer. */
  readonly answerMs: number;
  /** How long work may stand still that takes its time: a tree that is removed, a piece of a file that waits for room. */
  readonly workMs: number;
}

export class GuestFiles {
  readonly #request: Request;
  readonly #deadlines: FileDeadlines;

  constructor(request: Request, deadlines: FileDeadlines) {
    this.#request = request;
    this.#deadlines = deadlines;
  }

  async *read(
    path: GuestFilePath,
    range?: { readonly offset: number; readonly length: number },
  ): AsyncGenerator<Buffer, void, void> {
    const values: Values =
      range === undefined
        ? []
        : [
            ['offset', range.offset],
            ['length', range.length],
          ];
    const subject = `${quoted(path)} can't be read`;
    using connection = await this.#request(encodeFields('fileRead', [['path', path], ...values]));
    let left = range?.length ?? Number.POSITIVE_INFINITY;
    for (;;) {
      const frame = await connection.next(this.#deadlines.answerMs);
      if (frame.type === 'end') return;
      if (frame.kind !== 'data' || frame.type !== 'data') throw refuse(frame, subject);
      left -= frame.data.length;
      if (frame.data.length === 0 || left < 0) throw breach('more or less of a file than was asked for');
      yield Buffer.from(frame.data.buffer, frame.data.byteOffset, frame.data.length);
    }
  }

  async write(
    path: GuestFilePath,
    data: AsyncIterable<Uint8Array>,
    options: { readonly mode?: number; readonly createParents?: boolean } = {},
  ): Promise<void> {
    using connection = await this.#request(encodeFields('fileWrite', creation(path, options)));
    let answer: Frame | undefined;
    let failure: unknown;
    // PID 1 may refuse at any byte; then the rest of the data must not be fetched.
    const answered = connection.next().then(
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
    expectOk(answer, `${quoted(path)} can't be written`);
  }

  async stat(path: GuestFilePath, options: { readonly followLinks?: boolean } = {}): Promise<FileStat> {
    using connection = await this.#request(
      encodeFields('fileStat', [
        ['path', path],
        ['followLinks', options.followLinks === true ? 1 : 0],
      ]),
    );
    const frame = await connection.next(this.#deadlines.answerMs);
    if (frame.type !== 'entry') throw refuse(frame, `${quoted(path)} can't be looked at`);
    return checked(() => {
      const reader = new FieldReader(frame.fields);
      const stat = readStat(reader);
      reader.done();
      return stat;
    });
  }

  async *list(
    path: GuestFilePath,
  ): AsyncGenerator<{ readonly name: Buffer; readonly stat: FileStat }, void, void> {
    using connection = await this.#request(encodeFields('fileList', [['path', path]]));
    for (;;) {
      const frame = await connection.next(this.#deadlines.answerMs);
      if (frame.type === 'end') return;
      if (frame.type !== 'entry') throw refuse(frame, `${quoted(path)} can't be listed`);
      yield checked(() => parseListed(frame.fields));
    }
  }

  makeDirectory(
    path: GuestFilePath,
    options: { readonly mode?: number; readonly createParents?: boolean } = {},
  ): Promise<void> {
    return this.#simple('fileMakeDirectory', creation(path, options), {
      subject: `${quoted(path)} can't be made`,
    });
  }

  move(from: GuestFilePath, to: GuestFilePath): Promise<void> {
    return this.#simple(
      'fileMove',
      [
        ['path', from],
        ['target', to],
      ],
      { subject: `${quoted(from)} can't be moved` },
    );
  }

  remove(path: GuestFilePath, options: { readonly recursive?: boolean } = {}): Promise<void> {
    const values: Values = [
      ['path', path],
      ['recursive', options.recursive === true ? 1 : 0],
    ];
    const { answerMs, workMs } = this.#deadlines;
    const deadlineMs = options.recursive === true ? workMs : answerMs;
    return this.#simple('fileRemove', values, { subject: `${quoted(path)} can't be removed`, deadlineMs });
  }

  async *watch(
    path: GuestFilePath,
    options: { readonly recursive?: boolean } = {},
    signal?: AbortSignal,
  ): AsyncGenerator<{ readonly change: FileChange; readonly path: Buffer }, void, void> {
    const subject = `${quoted(path)} can't be watched`;
    using connection = await this.#request(
      encodeFields('fileWatch', [
        ['path', path],
        ['recursive', options.recursive === true ? 1 : 0],
      ]),
      signal,
    );
    const abort = (): void => connection.fail(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      expectOk(await connection.next(this.#deadlines.answerMs), subject);
      for (;;) {
        const frame = await connection.next();
        if (frame.type === 'end') return;
        if (frame.type !== 'event') throw refuse(frame, subject);
        yield checked(() => parseEvent(frame.fields));
      }
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  async #simple(
    type: FieldFrameName,
    values: Values,
    {
      subject,
      deadlineMs = this.#deadlines.answerMs,
    }: { readonly subject: string; readonly deadlineMs?: number },
  ): Promise<void> {
    using connection = await this.#request(encodeFields(type, values));
    expectOk(await connection.next(deadlineMs), subject);
  }
}

function creation(
  path: GuestFilePath,
  options: { readonly mode?: number; readonly createParents?: boolean },
): Values {
  const values: [FieldName, number | string | Uint8Array][] = [['path', path]];
  if (options.mode !== undefined) values.push(['mode', options.mode]);
  if (options.createParents === true) values.push(['createParents', 1]);
  return values;
}

function expectOk(frame: Frame, subject: string): void {
  if (frame.type !== 'ok') throw refuse(frame, subject);
  checked(() => new FieldReader(frame.fields).done());
}

/** A guest's fields that are wrong are its breach, not our fault. */
function checked<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw error instanceof FrameError ? breach(error.message, error) : error;
  }
}

function readStat(reader: FieldReader): FileStat {
  const type = typeNames.get(reader.integer('fileType'));
  if (type === undefined) throw breach('a file of unknown type');
  const target = reader.optionalBytes('target', guestLimits.pathBytesMax);
  return {
    type,
    size: reader.integer('size'),
    mode: reader.integer('mode', { max: 0o7777 }),
    uid: reader.integer('uid', { max: idMax }),
    gid: reader.integer('gid', { max: idMax }),
    mtimeMs: reader.integer('mtimeMs'),
    target: target === undefined ? undefined : Buffer.from(target),
  };
}

function parseListed(fields: readonly Field[]): { name: Buffer; stat: FileStat } {
  const reader = new FieldReader(fields);
  const name = Buffer.from(reader.bytes('path', nameBytesMax));
  const stat = readStat(reader);
  reader.done();
  const text = name.toString('latin1');
  // A name that leads elsewhere would be joined to a path by somebody further up.
  if (text === '' || text === '.' || text === '..' || /[/\0]/.test(text)) throw breach('a name that is none');
  return { name, stat };
}

function parseEvent(fields: readonly Field[]): { change: FileChange; path: Buffer } {
  const reader = new FieldReader(fields);
  const sent = reader.text('change', 16);
  const path = Buffer.from(reader.bytes('path', guestLimits.pathBytesMax));
  reader.done();
  const change = changes.find((known) => known === sent);
  if (change === undefined) throw breach(`a change "${sent}"`);
  const text = path.toString('latin1');
  if (
    text.includes('\0') ||
    (text !== '' && text.split('/').some((part) => part === '' || part === '.' || part === '..'))
  ) {
    throw breach('an event for a path that is not below the watched one');
  }
  return { change, path };
}

/** For messages: what is not printable shows as escapes. */
function quoted(path: GuestFilePath): string {
  return JSON.stringify(typeof path === 'string' ? path : new TextDecoder().decode(path));
}
