/**
 * A tunnel that goes through a proxy: the relay can't speak to one, so the bytes pass this process, unread.
 */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { failedDial, type UndecidedHost } from './undecided-host.ts';

/** Resolves when both ends are closed, or none has come about. */
export async function carryTunnel(program: Socket, host: Pick<UndecidedHost, 'dial' | 'end'>): Promise<void> {
  const gone = new AbortController();
  const giveUp = (): void => gone.abort();
  program.once('close', giveUp).on('error', giveUp);
  let server: Socket;
  try {
    server = await host.dial(gone.signal);
  } catch (error) {
    return host.end(gone.signal.aborted ? { kind: 'passed' } : failedDial(error));
  }
  using end = new DisposableStack();
  end.defer(() => server.destroy());
  if (program.destroyed) return;
  // A reset of one side is one of the other.
  server.on('error', () => program.resetAndDestroy());
  program.pipe(server);
  server.pipe(program);
  await once(program, 'close');
}
