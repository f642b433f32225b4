/** `port.tcp`: one WebSocket is one connection to a port. */
import { AppError } from '@squash/contract/errors';
import type { portOperations } from '@squash/contract/operations/ports';
import type { Engine } from '../engine/engine.ts';
import type { SocketHandler } from '../http/sockets.ts';
import { carry, converse } from './carry-bytes.ts';
import type { StreamParts } from './exec-stream.ts';

export function forwardingPort(
  { ports }: Pick<Engine, 'ports'>,
  { log, cutting }: StreamParts,
): SocketHandler<(typeof portOperations)['port.tcp']> {
  return ({ params: { id, port } }) => {
    // A sandbox that is not there is told by the handshake's status.
    ports.owner(id);
    return (socket) =>
      converse(socket, { operation: 'port.tcp', log }, async () => {
        await using stack = new AsyncDisposableStack();
        const stream = await ports.dial(id, port);
        stack.defer(() => void stream.destroy());
        await carry(socket, stream, { used: () => ports.used(id), cutting, broken });
      });
  };
}

function broken(cause: unknown): AppError {
  return new AppError('port_unreachable', 'The connection to the port broke', { cause });
}
