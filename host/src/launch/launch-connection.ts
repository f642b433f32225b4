/**
 * One request to `squash-launch`: a connection, one frame there, frames back until `ok` or `error`.
 *
 * The launcher is ours and trusted, yet its answers are parsed like anything that comes in: a launcher of another
 * version would otherwise be believed half.
 */
import type { Socket } from 'node:net';
import { AppError, type ErrorCode, errorCatalog } from '@squash/contract/errors';
import { type Field, FrameDecoder, FrameError } from '@squash/contract/guest/codec';
import { FieldReader } from '@squash/contract/guest/fields';
import { asError, Failure } from '@squash/base/failure';
import type { SocketDirectory } from '@squash/base/socket-directory';

/** Codes, sentences and paths in the launcher's answers are far below. */
export const answerTextBytesMax = 8_192;

export interface LaunchAnswer {
  /** Fields of the `ok` frame. */
  readonly ok: FieldReader;
  /** Each `entry` frame, in order. */
  readonly entries: readonly FieldReader[];
}

export async function connectLauncher(directory: SocketDirectory, signal?: AbortSignal): Promise<Socket> {
  try {
    return await directory.connect('launch.sock', signal);
  } catch (cause) {
    signal?.throwIfAborted();
    throw unavailable('squash-launch does not answer: `squash serve` starts it again within seconds', cause);
  }
}

export interface AskOptions {
  readonly answerMsMax: number;
  /** Aborted: the answer is not waited for. */
  readonly signal?: AbortSignal;
  /** Aborted: the launcher is told to give up what it does, and its answer is waited for. */
  readonly giveUp?: AbortSignal;
}

/** @throws what the launcher's `error` frame says, launcher_unavailable where it goes away */
export async function askLauncher(
  directory: SocketDirectory,
  request: Uint8Array,
  options: AskOptions,
): Promise<LaunchAnswer> {
  const socket = await connectLauncher(directory, options.signal);
  const deadline = setTimeout(() => {
    socket.destroy(new Failure('no_answer', `squash-launch did not answer within ${options.answerMsMax} ms`));
  }, options.answerMsMax);
  const abort = (): void => void socket.destroy(new Failure('given_up', 'the request was given up'));
  options.signal?.addEventListener('abort', abort, { once: true });
  const giveUp = (): void => void socket.end();
  try {
    // Written whole and left open: the launcher takes a closed connection for a client that is gone.
    socket.write(request);
    options.giveUp?.addEventListener('abort', giveUp, { once: true });
    if (options.giveUp?.aborted === true) giveUp();
    return await readAnswer(socket);
  } catch (cause) {
    options.signal?.throwIfAborted();
    if (cause instanceof AppError) throw cause;
    throw unavailable(cause instanceof Error ? cause.message : 'squash-launch is gone', cause);
  } finally {
    clearTimeout(deadline);
    options.signal?.removeEventListener('abort', abort);
    options.giveUp?.removeEventListener('abort', giveUp);
    socket.destroy();
  }
}

/**
 * Reads by events: iterating the socket would end with an `AbortError` and its stack trace for every answer, a tenth
 * of a millisecond that a burst of creates pays some hundred times.
 */
async function readAnswer(socket: Socket): Promise<LaunchAnswer> {
  const decoder = new FrameDecoder();
  const entries: FieldReader[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<LaunchAnswer>();
  const take = (chunk: Buffer): LaunchAnswer | undefined => {
    for (const frame of decoder.decode(chunk)) {
      if (frame.kind === 'data') throw new FrameError('type', 'squash-launch sent raw data');
      if (frame.type === 'error') throw refusal(frame.fields);
      if (frame.type === 'ok') return { ok: new FieldReader(frame.fields), entries };
      if (frame.type === 'entry') entries.push(new FieldReader(frame.fields));
    }
    return undefined;
  };
  socket.on('data', (chunk: Buffer) => {
    try {
      const answer = take(chunk);
      if (answer !== undefined) resolve(answer);
    } catch (error) {
      reject(asError(error));
    }
  });
  const gone = (): void =>
    reject(new Failure('hung_up', 'squash-launch closed the connection without an answer'));
  socket.once('error', reject).once('end', gone).once('close', gone);
  try {
    return await promise;
  } finally {
    // Each connection closes: an error with its stack trace is made only where the answer is missing.
    socket.off('end', gone).off('close', gone);
  }
}

export function refusal(fields: readonly Field[]): AppError {
  const reader = new FieldReader(fields);
  const sent = reader.text('errorCode', 64);
  const message = reader.optionalText('message', answerTextBytesMax) ?? 'squash-launch gave no reason';
  const code: ErrorCode = Object.hasOwn(errorCatalog, sent) ? (sent as ErrorCode) : 'launch_failed';
  return new AppError(code, message);
}

export function unavailable(message: string, cause: unknown): AppError {
  return new AppError('launcher_unavailable', message, { cause });
}
