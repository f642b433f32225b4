/** Ctrl-Z: whoever the shell started stops, which is another process than ours where we stand in for it (`box/standby.ts`). */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';

let caller: number | undefined;
/** We are told at once that we go on, if we were stopped. */
const settleMs = 100;

/** Where nothing else does, SIGTSTP stops both from here on: ours alone would be ignored, for it is no job of a shell. */
export function standFor(pid: number): void {
  caller = pid;
  process.on('SIGTSTP', () => {
    if (process.listenerCount('SIGTSTP') === 1) void suspendJob();
  });
}

/**
 * Stops the whole job, as the terminal's own Ctrl-Z does, until SIGCONT. Where no shell could continue it the kernel does not
 * stop it: then this is over soon.
 */
export async function suspendJob(): Promise<void> {
  const continued = new Promise<void>((resolve) => {
    process.once('SIGCONT', () => resolve());
  });
  if (caller !== undefined) {
    // It halts us while it is stopped, and sends SIGCONT in any case (native/call).
    process.kill(caller, 'SIGTSTP');
    await continued;
    // The kernel continues us also where it was killed: then we have ended before this.
    await setImmediate();
    return;
  }
  // Only what has no listener stops.
  const listeners = process.listeners('SIGTSTP');
  process.removeAllListeners('SIGTSTP');
  process.kill(0, 'SIGTSTP');
  await Promise.race([continued, sleep(settleMs)]);
  for (const listener of listeners) process.on('SIGTSTP', listener);
}
