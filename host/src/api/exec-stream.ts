/**
 * `sandbox.exec_stream`: one WebSocket is one command, from its start message to its exit.
 *
 * Three things end it: the command (exit, then close), the client (the command gets SIGHUP unless detached), and
 * the daemon's stop (the client is told, the command goes on and the next daemon finds it).
 */
import { AppError } from '@squash/contract/errors';
import { type ExecEvent, type ExecStart, execControlSchema, execStartSchema } from '@squash/contract/exec';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { processOperations } from '@squash/contract/operations/processes';
import { safeParse } from '@squash/contract/safe-parse';
import type { z } from 'zod';
import type { Log } from '@squash/base/log';
import type { Engine } from '../engine/engine.ts';
import { ClientGoneError, type Message, type MessageSocket } from '../http/message-socket.ts';
import { asAppError } from '../http/problem.ts';
import type { SocketHandler } from '../http/sockets.ts';
import type { ExecSession } from '../sandbox/session.ts';

export interface StreamParts {
  readonly log: Log;
  /** Aborted when connections are about to be cut. */
  readonly cutting: AbortSignal;
  /** Aborted when the daemon begins to stop: who only follows goes on at the next one. */
  readonly stopping: AbortSignal;
}

interface ExecStreamOptions extends StreamParts {
  readonly processes: Engine['processes'];
  readonly id: SandboxId;
  readonly checkOwner: () => void;
}

const policyViolation = 1008;
export const serviceRestart = 1012;
export const outputTags = { stdout: 1, stderr: 2 } as const;

export function streamingExec(
  { processes, sandboxes }: Engine,
  parts: StreamParts,
): SocketHandler<(typeof processOperations)['sandbox.exec_stream']> {
  return ({ params: { id }, checkOwner }) => {
    // Throws where there is no such sandbox.
    sandboxes.get(id);
    return (socket) => serveExecStream(socket, { processes, id, checkOwner, ...parts });
  };
}

/** Resolves when the connection is over. Never throws: the client is told what failed. */
async function serveExecStream(socket: MessageSocket, options: ExecStreamOptions): Promise<void> {
  try {
    const start = await readStart(socket);
    if (start === undefined) return;
    options.checkOwner();
    const session = await options.processes.stream(options.id, start);
    await runSession(socket, { session, start, cutting: options.cutting });
    await socket.close(1000, '');
  } catch (error) {
    if (error instanceof ClientGoneError) return;
    const failure = asAppError(error);
    if (failure.code === 'internal') {
      options.log.error('request.fault', { operation: 'sandbox.exec_stream', error: failure.cause });
    }
    await sayGoodbye(socket, failure);
  }
}

async function sayGoodbye(socket: MessageSocket, failure: AppError): Promise<void> {
  const event: ExecEvent = { type: 'error', code: failure.code, message: failure.message };
  // A client that has gone meanwhile needs no goodbye.
  await tell(socket, event).catch(() => undefined);
  await socket.close(failure.code === 'shutting_down' ? serviceRestart : 1000, '');
}

async function readStart(socket: MessageSocket): Promise<ExecStart | undefined> {
  const timer = setTimeout(
    () => void socket.close(policyViolation, 'no start message'),
    limits.webSocketStartMs,
  );
  const message = await socket.receive();
  clearTimeout(timer);
  if (message === undefined) return undefined;
  if (message.type !== 'text') {
    throw new AppError('invalid_request', 'the first message must be a text message of type start');
  }
  return parseMessage(message.text, execStartSchema);
}

interface Running {
  readonly session: ExecSession;
  readonly start: ExecStart;
  readonly cutting: AbortSignal;
}

async function runSession(socket: MessageSocket, running: Running): Promise<void> {
  const { session, cutting } = running;
  const stopping = Promise.withResolvers<never>();
  const stop = (): void =>
    stopping.reject(new AppError('shutting_down', 'The daemon is stopping; the command goes on'));
  cutting.addEventListener('abort', stop, { once: true });
  if (cutting.aborted) stop();
  const gone = socket.closed.then(() => 'gone' as const);
  try {
    const output = sendOutput(socket, session);
    const input = takeInput(socket, running);
    // Input ends without a word when the client goes away; only its failures decide.
    const failedInput = input.then(() => new Promise<never>(() => {}));
    const end = await Promise.race([output, failedInput, gone, stopping.promise]);
    if (end === 'gone') session.abandon();
  } catch (error) {
    // A client that breaks the protocol is as good as gone; a daemon that stops abandons nobody.
    if (!cutting.aborted) session.abandon();
    throw error;
  } finally {
    cutting.removeEventListener('abort', stop);
  }
}

async function sendOutput(socket: MessageSocket, session: ExecSession): Promise<'exited'> {
  await tell(socket, { type: 'started', seq: session.seq, pid: session.pid });
  for await (const event of session.events()) {
    if (event.type === 'output') {
      const message = Buffer.allocUnsafe(event.data.length + 1);
      message[0] = outputTags[event.stream];
      message.set(event.data, 1);
      await socket.send(message);
      continue;
    }
    if (event.type === 'stopped') {
      await tell(socket, event);
      continue;
    }
    const { record } = event;
    await tell(socket, {
      type: 'exit',
      exit_code: record.exit_code,
      signal: event.signal ?? null,
      timed_out: record.timed_out,
      reason: record.reason,
      duration_ms: record.duration_ms,
      stdout_bytes: record.stdout_bytes,
      stderr_bytes: record.stderr_bytes,
    });
  }
  return 'exited';
}

/** Takes the next message only when the command has taken the last one. */
async function takeInput(socket: MessageSocket, running: Running): Promise<void> {
  for (;;) {
    const message = await socket.receive();
    if (message === undefined) return;
    await applyInput(message, running);
  }
}

async function applyInput(message: Message, { session, start }: Running): Promise<void> {
  if (message.type === 'binary') {
    if (!start.stdin && start.tty === undefined) {
      throw new AppError('invalid_request', 'standard input was not asked for: start with "stdin": true');
    }
    // A command that has ended, or closed its input, takes nothing more; its exit tells the client.
    await session.writeStdin(message.data).catch(() => undefined);
    return;
  }
  const control = parseMessage(message.text, execControlSchema);
  switch (control.type) {
    case 'stdin_eof':
      session.endStdin();
      return;
    case 'resize':
      session.resize(control.rows, control.columns);
      return;
    case 'signal':
      session.signal(control.signal);
      return;
  }
}

/** @throws invalid_json, invalid_request */
export function parseMessage<T extends z.ZodType>(text: string, schema: T): z.output<T> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new AppError('invalid_json', 'A text message of the stream is no JSON');
  }
  const parsed = safeParse(schema, value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? '' : `${issue.path.map(String).join('.')}: `;
  throw new AppError('invalid_request', `${where}${issue?.message ?? 'the message is malformed'}`);
}

async function tell(socket: MessageSocket, event: ExecEvent): Promise<void> {
  await socket.send(JSON.stringify(event));
}
