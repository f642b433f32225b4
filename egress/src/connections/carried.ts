/**
 * A tunnel that goes through a proxy: the relay can't speak to one, so the bytes pass this process, unread, in
 * turns of the sandboxes.
 */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { byteTurns } from '../flow/byte-turns.ts';
import { leaveServer, passOn } from '../flow/pump.ts';
import { failedDial, type UndecidedHost } from './undecided-host.ts';

/** Resolves when both ends are closed, or none has come about. */
export async function carryTunnel(
  program: Socket,
  host: Pick<UndecidedHost, 'sandbox' | 'dial' | 'cut' | 'end'>,
): Promise<void> {
  const gone = new AbortController();
  const giveUp = (): void => gone.abort();
  program.once('close', giveUp).on('error', giveUp);
  using end = new DisposableStack();
  byteTurns.enter(host.sandbox);
  end.defer(() => byteTurns.leave(host.sandbox));
  let server: Socket;
  try {
    server = await host.dial(gone.signal);
  } catch (error) {
    return host.end(gone.signal.aborted ? { kind: 'passed' } : failedDial(error));
  }
  end.defer(() => leaveServer(server, program));
  server.on('error', host.cut);
  if (program.destroyed) return;
  passOn(program, server, byteTurns.payer(host.sandbox));
  passOn(server, program, byteTurns.payer(host.sandbox));
  await once(program, 'close');
}
