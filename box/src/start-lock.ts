/**
 * One start at a time: whoever waits finds the daemon that the first has started.
 *
 * The kernel holds the lock and lets go of it when its process ends, however it ends: `flock` locks our open file, which it was lent, and
 * a lock belongs to the open file.
 */
import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { systemPath } from '@squash/contract/system-path';

/** Undefined where it could not be had in time. Where there is no `flock` nobody waits: the daemon's own lock lets one of two live. */
export async function startLock(path: string, seconds: number): Promise<Disposable | undefined> {
  const file = openSync(path, 'a', 0o600);
  const child = spawn('flock', ['--exclusive', '--timeout', `${seconds}`, '3'], {
    env: { PATH: systemPath },
    stdio: ['ignore', 'ignore', 'ignore', file],
  });
  const isLocked = await new Promise<boolean>((resolve) => {
    child.once('error', () => resolve(true));
    child.once('exit', (code) => resolve(code === 0));
  });
  if (isLocked) return { [Symbol.dispose]: () => closeSync(file) };
  closeSync(file);
  return undefined;
}
