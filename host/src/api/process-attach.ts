/**
 * `process.attach`: any number of clients on one process, each from the position it wants, over WebSockets.
 *
 * Output comes from the store, so that a client that reads slowly holds up neither the process nor the other clients. What a client
 * sends is input and controls; one that goes away ends nothing.
 */
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import type { processOperations } from '@squash/contract/operations/processes';
import { type ProcessEvent, processControlSchema } from '@squash/contract/process';
import type { Engine } from '../engine/engine.ts';
import { ClientGoneError, type Message, type MessageSocket } from '../http/message-socket.ts';
import { asAppError } from '../http/problem.ts';
import type { SocketHandler } from '../http/sockets.ts';
import { outputTags, parseMessage, type StreamParts, serviceRestart } from './exec-stream.ts';
import { errorEvent } from './process-output.ts';

type Processes = Engine['processes'];
type Bytes = ReturnType<Processes['output']>;

/** One byte for the stream, eight for the position behind the bytes. */
const headerBytes = 9;

export function attachingProcess(
  { processes }: Engine,
  parts: StreamParts,
): SocketHandler<(typeof processOperations)['process.attach']> {
  return ({ params, query, checkOwner }) => {
    const { id } = params;
    // By its number from here on: a tag may be another's in a moment.
    const { process } = processes.get(id, params.process);
    const over = new AbortController();
    const wish = { after: query.after ?? 0, isFollowing: true, isStalling: query.stall ?? false };
    const bytes = processes.output(id, process, wish, AbortSignal.any([over.signal, parts.stopping]));
    return async (socket) => {
      void socket.closed.then(() => over.abort());
      await serve(socket, { processes, id, process, bytes, checkOwner, ...parts });
    };
  };
}

interface Attached extends StreamParts {
  readonly processes: Processes;
  readonly id: SandboxId;
  readonly process: number;
  readonly bytes: Bytes;
  readonly checkOwner: () => void;
}

/** Resolves when the connection is over. Never throws: the client is told what failed. */
async function serve(socket: MessageSocket, attached: Attached): Promise<void> {
  try {
    const input = takeInput(socket, attached);
    // Input ends without a word when the client goes away; only a breach of the protocol decides.
    const brokenInput = input.then(() => new Promise<never>(() => {}));
    await Promise.race([sendOutput(socket, attached), brokenInput]);
    await socket.close(1000, '');
  } catch (error) {
    if (error instanceof ClientGoneError) return;
    const failure = asAppError(error);
    if (failure.code === 'internal') {
      attached.log.error('request.fault', { operation: 'process.attach', error: failure.cause });
    }
    // A client that has gone meanwhile needs no goodbye.
    await tell(socket, errorEvent(failure)).catch(() => undefined);
    await socket.close(failure.code === 'shutting_down' ? serviceRestart : 1000, '');
  }
}

async function sendOutput(socket: MessageSocket, attached: Attached): Promise<void> {
  const { processes, id, process, bytes, stopping } = attached;
  await tell(socket, { type: 'process', process: processes.get(id, process) });
  for await (const event of bytes) {
    if (event.type === 'gap') {
      await tell(socket, event);
      continue;
    }
    const message = Buffer.allocUnsafe(headerBytes + event.data.length);
    message[0] = outputTags[event.stream];
    message.writeBigUInt64BE(BigInt(event.seq), 1);
    message.set(event.data, headerBytes);
    await socket.send(message);
  }
  if (stopping.aborted) {
    throw new AppError('shutting_down', 'The daemon is stopping; the process goes on');
  }
  const end = processes.get(id, process);
  if (end.state === 'ended') {
    await tell(socket, { type: 'exit', seq: end.stdout_bytes + end.stderr_bytes, process: end });
  }
}

/** Takes the next message only when the process has taken the last one. */
async function takeInput(socket: MessageSocket, attached: Attached): Promise<void> {
  for (;;) {
    const message = await socket.receive();
    if (message === undefined) return;
    const apply = applyOf(message, socket, attached);
    attached.checkOwner();
    try {
      await apply();
    } catch (error) {
      // The process takes no input, or has ended: it is told, and who only looks on may go on doing so.
      if (!(error instanceof AppError)) throw error;
      await tell(socket, errorEvent(error));
    }
  }
}

/** @throws invalid_json, invalid_request for a message that is none of the protocol */
function applyOf(message: Message, socket: MessageSocket, attached: Attached): () => Promise<unknown> {
  const { processes, id, process } = attached;
  const write = (chunks: readonly Uint8Array[], isLast: boolean) => () =>
    processes.write(id, process, { chunks, isLast, patience: { waitMs: undefined, gone: socket.closed } });
  if (message.type === 'binary') return write([message.data], false);
  const control = parseMessage(message.text, processControlSchema);
  switch (control.type) {
    case 'stdin_eof':
      return write([], true);
    case 'resize':
      return () => processes.resize(id, process, control);
    case 'signal':
      return () => processes.signal(id, process, control.signal);
  }
}

async function tell(socket: MessageSocket, event: ProcessEvent): Promise<void> {
  await socket.send(JSON.stringify(event));
}
