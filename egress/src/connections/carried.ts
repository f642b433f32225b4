/**
 * A tunnel that goes through a proxy: the relay can't speak to one, so the bytes pass this process, unread, in
 * turns of the sandboxes.
 */
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { byteTurns } from '../flow/byte-turns.ts';
import { passOn } from '../flow/pump.ts';
import { failedDial, type UndecidedHost } from './undecided-host.ts';

/** Resolves when both ends are closed, or none has come about. */
export async function carryTunnel(
  program: Socket,
  host: Pick<UndecidedHost, 'sandbox' | 'dial' | 'end'>,
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
  end.defer(() => server.destroy());
  if (program.destroyed) return;
  // A reset of one side is one of the other.
  server.on('error', () => program.resetAndDestroy());
  passOn(program, server, byteTurns.payer(host.sandbox));
  passOn(server, program, byteTurns.payer(host.sandbox));
  await once(program, 'close');
}
