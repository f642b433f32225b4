/**
 * Signals that we get are meant for the command in the sandbox: they are passed on and do not end us.
 *
 * The way out of a command that ignores them, or of a daemon that does not answer, is a third Ctrl-C.
 */
import { constants } from 'node:os';
import { printNote } from '../output/print.ts';

const forwarded = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;
/** A person who presses it three times wants out. */
const interruptsMax = 3;

export const signalNumbers: Readonly<Partial<Record<NodeJS.Signals, number>>> = constants.signals;

/** Returns what ends the forwarding. */
export function forwardSignals(send: (name: NodeJS.Signals) => void): () => void {
  let interrupts = 0;
  const listeners = forwarded.map((name) => {
    const listener = (): void => {
      send(name);
      if (name === 'SIGINT') interrupts += 1;
      if (interrupts >= interruptsMax) {
        printNote('squash: left the command alone; it got SIGHUP (aborted)');
        process.exit(128 + constants.signals.SIGINT);
      }
    };
    process.on(name, listener);
    return { name, listener };
  });
  return () => {
    for (const { name, listener } of listeners) process.off(name, listener);
  };
}
