/**
 * The daemon's side of PID 1: one connection per operation at a time, every answer checked.
 *
 * An exec whose connection fails after the request was sent may be running: `attach` with its id finds it, and
 * PID 1 refuses a second exec with the same id. So a command never runs twice by being asked for again.
 */
import type { Duplex } from 'node:stream';
import { AppError } from '@squash/contract/errors';
import {
  encodeFields,
  type Field,
  type FieldFrameName,
  type Frame,
  FrameError,
} from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import {
  type FieldName,
  guestLimits,
  pathIntents,
  stdinModes,
  ttyModes,
} from '@squash/contract/guest/frames';
import { ExecSession, type Started } from './exec-session.ts';
import { GuestFiles } from './files.ts';
import { breach, FrameConnection } from './frame-connection.ts';
import type {
  Guest,
  GuestExec,
  GuestExecEntry,
  GuestExecSpec,
  GuestFileSystem,
  PathIntent,
  RefusedPath,
  RefusedPaths,
} from './guest.ts';
import { GuestErrno, refuse } from './guest-error.ts';
import { KeptConnection } from './kept-connection.ts';

/** What the kernel gives as pids at most (2^22). */
const pidMax = 4_194_304;
/** PID 1 answers in well under a millisecond; a machine under load or a frozen sandbox takes longer. */
const answerDeadlineMsDefault = 10_000;
/**
 * A tree of as many files as a layer may hold is removed within it on a slow disk, and no snapshot holds a sandbox still
 * for so long: who waits longer waits for a PID 1 that lies.
 */
const workDeadlineMsDefault = 600_000;

export interface GuestClientOptions {
  /** A fresh byte stream to PID 1. `dial` keeps half-closes only where it was made with `allowHalfOpen`. */
  readonly connect: (signal?: AbortSignal) => Promise<Duplex>;
  /** How long a request may wait for its first answer. */
  readonly answerDeadlineMs?: number;
  /** How long a file operation of unknown size may stand still. */
  readonly workDeadlineMs?: number;
}

export class GuestClient implements Guest {
  readonly #connect: (signal?: AbortSignal) => Promise<Duplex>;
  readonly files: GuestFileSystem;
  readonly #answerDeadlineMs: number;
  readonly #kept = new KeptConnection();

  constructor(options: GuestClientOptions) {
    this.#connect = options.connect;
    this.#answerDeadlineMs = options.answerDeadlineMs ?? answerDeadlineMsDefault;
    this.files = new GuestFiles((frame, options) => this.#request(frame, options), {
      answerMs: this.#answerDeadlineMs,
      workMs: options.workDeadlineMs ?? workDeadlineMsDefault,
    });
  }

  async exec(spec: GuestExecSpec, signal?: AbortSignal): Promise<GuestExec> {
    try {
      return await this.#exec(spec, signal);
    } catch (error) {
      if (spec.tty?.hasJobs !== true || !isBadRequest(error)) throw error;
      // PID 1 of an earlier release knows no jobs.
      return await this.#exec({ ...spec, tty: { ...spec.tty, hasJobs: false } }, signal);
    }
  }

  async #exec(spec: GuestExecSpec, signal?: AbortSignal): Promise<GuestExec> {
    const subject = `The command ${JSON.stringify(textOf(spec.argv[0] ?? ''))} can't be started`;
    const request = encodeExec(spec, subject);
    const startedOn = async (connection: FrameConnection): Promise<GuestExec> => {
      const started = await this.#answer(connection, signal, (frame) => {
        if (frame.type !== 'started') throw refuse(frame, subject);
        return parseStarted(frame.fields, { execId: spec.execId, stdout: 0, stderr: 0 });
      });
      return this.#session(connection, started);
    };
    signal?.throwIfAborted();
    const kept = this.#kept.take();
    if (kept === undefined) return await startedOn(await this.#request(request, { signal }));
    try {
      kept.post(request);
      return await startedOn(kept);
    } catch (error) {
      if (!kept.isLost || signal?.aborted === true) throw error;
    }
    // It went away before anything was said of this command, which may run.
    try {
      return await startedOn(await this.#request(request, { signal }));
    } catch (error) {
      if (!isInUse(error)) throw error;
      return await this.attach(spec.execId, { stdout: 0, stderr: 0 });
    }
  }

  #session(connection: FrameConnection, started: Started): GuestExec {
    return new ExecSession(connection, started, (released) => this.#kept.release(released));
  }

  async attach(
    execId: string,
    stored: { readonly stdout: number; readonly stderr: number },
  ): Promise<GuestExec> {
    const { stdout, stderr } = stored;
    const connection = await this.#request(
      encodeFields('attach', [
        ['execId', execId],
        ['stdoutOffset', stdout],
        ['stderrOffset', stderr],
      ]),
    );
    const started = await this.#answer(connection, undefined, (frame) => {
      if (frame.type !== 'started') throw refuse(frame, `The exec "${execId}" can't be attached`);
      return parseStarted(frame.fields, { execId, stdout, stderr });
    });
    return this.#session(connection, started);
  }

  async list(): Promise<readonly GuestExecEntry[]> {
    using connection = await this.#request(encodeFields('execList', []));
    const entries: GuestExecEntry[] = [];
    for (;;) {
      const isOver = await this.#answer(connection, undefined, (frame) => {
        if (frame.type === 'end') return true;
        if (frame.type !== 'entry') throw refuse(frame, "The commands can't be listed");
        if (entries.length === guestLimits.execsKnownMax) throw breach('more commands than it can hold');
        entries.push(parseEntry(frame.fields));
        return false;
      });
      if (isOver) return entries;
    }
  }

  async info(signal?: AbortSignal): Promise<{ readonly protocol: number }> {
    using connection = await this.#request(encodeFields('info', []), { signal });
    return await this.#answer(connection, signal, (frame) => {
      if (frame.type !== 'ok') throw refuse(frame, 'PID 1 tells nothing of itself');
      const reader = new FieldReader(frame.fields);
      // One from before this field speaks 1, and says a version that never rose.
      const protocol = reader.optionalInteger('protocol') ?? 1;
      reader.optionalText('version', 64);
      reader.integer('running', { max: guestLimits.execsLiveMax });
      reader.integer('pid', { min: 1, max: pidMax });
      reader.done();
      return { protocol };
    });
  }

  /** Of a microVM's guest: its commands have so many bytes less, in all, than they began with. @throws guest_failed, with `GuestErrno` ENOMEM where they use more */
  async takeMemory(bytes: number, signal?: AbortSignal): Promise<void> {
    using connection = await this.#request(encodeFields('guestMemory', [['bytes', bytes]]), { signal });
    await this.#answer(connection, signal, (frame) => {
      if (frame.type !== 'ok') throw refuse(frame, "Its commands can't be held to less memory");
      new FieldReader(frame.fields).done();
    });
  }

  async refusedPaths(offset: number, signal?: AbortSignal): Promise<RefusedPaths> {
    using connection = await this.#request(encodeFields('pathList', [['offset', offset]]), { signal });
    const paths: RefusedPath[] = [];
    for (;;) {
      const end = await this.#answer(connection, signal, (frame) => {
        if (frame.type === 'end') return parsePathsEnd(frame.fields, offset + paths.length);
        if (frame.type !== 'entry') throw refuse(frame, "The refused paths can't be listed");
        if (offset + paths.length === guestLimits.tracedPathsMax) throw breach('more paths than it can hold');
        paths.push(parseRefusedPath(frame.fields));
        return undefined;
      });
      if (end !== undefined) return { paths, ...end };
    }
  }

  async dial(port: number, signal?: AbortSignal): Promise<Duplex> {
    const connection = await this.#request(encodeFields('dial', [['port', port]]), {
      signal,
      isRawBehindAnswer: true,
    });
    await this.#answer(connection, signal, (frame) => {
      if (frame.type !== 'ok') throw refuse(frame, `Port ${port} can't be reached`);
      new FieldReader(frame.fields).done();
    });
    return connection.detach();
  }

  async #request(
    frame: Uint8Array,
    options: {
      readonly signal?: AbortSignal | undefined;
      readonly readAheadBytesMax?: number;
      readonly isRawBehindAnswer?: boolean;
    } = {},
  ): Promise<FrameConnection> {
    const { signal, readAheadBytesMax, isRawBehindAnswer } = options;
    signal?.throwIfAborted();
    const connection = new FrameConnection(await this.#connect(signal), readAheadBytesMax);
    if (isRawBehindAnswer === true) connection.stopBehindNextFrame();
    connection.post(frame);
    return connection;
  }

  /** The first frame, parsed. Closes the connection where it is not what it should be. */
  async #answer<T>(
    connection: FrameConnection,
    signal: AbortSignal | undefined,
    parse: (frame: Frame) => T,
  ): Promise<T> {
    const abort = (): void => connection.fail(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    if (signal?.aborted === true) abort();
    try {
      return parse(await connection.next(this.#answerDeadlineMs));
    } catch (error) {
      connection.close();
      throw error instanceof FrameError ? breach(error.message, error) : error;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }
}

function encodeExec(spec: GuestExecSpec, subject: string): Uint8Array {
  const fields: (readonly [FieldName, number | string | Uint8Array])[] = [['execId', spec.execId]];
  for (const argument of spec.argv) fields.push(['arg', argument]);
  for (const [name, value] of Object.entries(spec.env)) fields.push(['env', `${name}=${value}`]);
  fields.push(['cwd', spec.cwd], ['uid', spec.uid], ['gid', spec.gid]);
  if (spec.tty !== undefined) {
    const mode = spec.tty.hasJobs === true ? ttyModes.jobs : ttyModes.plain;
    fields.push(['tty', mode], ['rows', spec.tty.rows], ['columns', spec.tty.columns]);
  }
  fields.push(['stdinMode', stdinModes[spec.stdin]], ['openFilesMax', spec.openFilesMax]);
  if (spec.timeoutMs !== undefined) fields.push(['timeoutMs', spec.timeoutMs]);
  return encodeBounded('exec', fields, subject);
}

/** @throws exec_failed where arguments and environment are more than a frame holds */
function encodeBounded(
  type: FieldFrameName,
  fields: readonly (readonly [FieldName, number | string | Uint8Array])[],
  subject: string,
): Uint8Array {
  try {
    return encodeFields(type, fields);
  } catch (error) {
    if (!(error instanceof FrameError)) throw error;
    throw new AppError(
      'exec_failed',
      `${subject}: arguments and environment are too large: ${error.message}.`,
    );
  }
}

function parseStarted(
  fields: readonly Field[],
  wanted: { readonly execId: string; readonly stdout: number; readonly stderr: number },
): Started {
  const reader = new FieldReader(fields);
  const execId = reader.text('execId', guestLimits.execIdBytesMax);
  const pid = reader.integer('pid', { min: 1, max: pidMax });
  const stdout = reader.integer('stdoutOffset');
  const stderr = reader.integer('stderrOffset');
  const stdinReceived = reader.integer('offset');
  const stdinKept = reader.integer('length', { max: stdinReceived });
  reader.done();
  if (execId !== wanted.execId) throw breach('it answers for another exec');
  if (stdout !== wanted.stdout || stderr !== wanted.stderr) throw breach('output begins at another offset');
  return { execId, pid, stdout, stderr, stdinReceived, stdinTaken: stdinReceived - stdinKept };
}

function parseEntry(fields: readonly Field[]): GuestExecEntry {
  const reader = new FieldReader(fields);
  const entry = {
    execId: reader.text('execId', guestLimits.execIdBytesMax),
    pid: reader.integer('pid', { min: 1, max: pidMax }),
    running: reader.integer('running', { max: 1 }) === 1,
  };
  reader.done();
  return entry;
}

const intentNames = Object.entries(pathIntents) as readonly (readonly [PathIntent, number])[];

function parseRefusedPath(fields: readonly Field[]): RefusedPath {
  const reader = new FieldReader(fields);
  const path = Buffer.from(reader.bytes('path', guestLimits.pathBytesMax - 1));
  const value = reader.integer('intent');
  const intent = intentNames.find(([, each]) => each === value)?.[0];
  const atMs = Math.floor(reader.integer('changedUs') / 1_000);
  reader.done();
  if (intent === undefined || path[0] !== slash || path.includes(0)) throw breach('a path that is none');
  return { path, intent, atMs };
}

function parsePathsEnd(fields: readonly Field[], next: number): Omit<RefusedPaths, 'paths'> {
  const reader = new FieldReader(fields);
  if (reader.integer('offset') !== next) throw breach('paths that it does not tell');
  const isTruncated = reader.flag('truncated');
  reader.done();
  return { next, isTruncated };
}

const isInUse = (error: unknown): boolean =>
  error instanceof AppError && error.cause instanceof GuestErrno && error.cause.code === 'EEXIST';

const isBadRequest = (error: unknown): boolean =>
  error instanceof AppError &&
  error.code === 'guest_failed' &&
  error.cause instanceof GuestErrno &&
  error.cause.code === 'EINVAL';

const slash = 0x2f;

const textOf = (value: string | Uint8Array): string =>
  typeof value === 'string' ? value : new TextDecoder().decode(value);
