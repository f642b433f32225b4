/** `caller.*`: a port of the client's machine is offered to a sandbox, and each connection to it is a WebSocket of its own. */
import { type CallerEvent, callerControlSchema } from '@squash/contract/callers';
import { AppError } from '@squash/contract/errors';
import type { callerOperations } from '@squash/contract/operations/callers';
import type { CallerPort } from '../engine/callers.ts';
import type { Engine } from '../engine/engine.ts';
import { ClientGoneError, type MessageSocket } from '../http/message-socket.ts';
import type { SocketHandler } from '../http/sockets.ts';
import { carry, converse } from './carry-bytes.ts';
import { parseMessage, type StreamParts } from './exec-stream.ts';

type Callers = Engine['callers'];
type Operations = typeof callerOperations;

export function offeringPort(
  { callers, ports }: Pick<Engine, 'callers' | 'ports'>,
  { log, stopping }: StreamParts,
): SocketHandler<Operations['caller.offer']> {
  return ({ params: { id, port }, checkOwner }) => {
    // A sandbox that is not there is told by the handshake's status.
    ports.owner(id);
    return (socket) =>
      converse(socket, { operation: 'caller.offer', log }, async () => {
        const over = new AbortController();
        void socket.closed.then(() => over.abort());
        const at = { id, port };
        const signal = AbortSignal.any([over.signal, stopping]);
        // Before anything is offered: the id may have become another's.
        checkOwner();
        try {
          await Promise.race([tell(socket, callers.offer(at, signal)), hear(socket, callers, at)]);
        } catch (error) {
          if (stopping.aborted) throw new AppError('shutting_down', 'The daemon is stopping');
          throw over.signal.aborted ? new ClientGoneError({ cause: error }) : error;
        } finally {
          over.abort();
        }
      });
  };
}

async function tell(socket: MessageSocket, events: ReturnType<Callers['offer']>): Promise<void> {
  for await (const event of events) await socket.send(JSON.stringify(event satisfies CallerEvent));
}

/** @throws ClientGoneError, invalid_request, invalid_json, egress_unavailable */
async function hear(socket: MessageSocket, callers: Callers, at: CallerPort): Promise<never> {
  for (;;) {
    const message = await socket.receive();
    if (message === undefined) throw new ClientGoneError();
    if (message.type === 'binary') throw new AppError('invalid_request', 'an offer carries no bytes');
    const { connection } = parseMessage(message.text, callerControlSchema);
    await callers.refuse({ ...at, connection });
  }
}

export function takingConnection(
  { callers, ports }: Pick<Engine, 'callers' | 'ports'>,
  { log, cutting }: StreamParts,
): SocketHandler<Operations['caller.take']> {
  return ({ params }) => {
    const { id } = params;
    ports.owner(id);
    callers.check(params);
    return (socket) =>
      converse(socket, { operation: 'caller.take', log }, async () => {
        const taken = await callers.take(params);
        try {
          await carry(socket, taken.stream, { used: () => ports.used(id), cutting, broken });
        } catch (error) {
          await taken.break();
          throw error;
        } finally {
          taken.stream.destroy();
        }
      });
  };
}

function broken(cause: unknown): AppError {
  return new AppError('connection_gone', 'The program broke the connection off, or the offer has ended', {
    cause,
  });
}
