/**
 * Merges of boxes over one directory come one after the other: git locks its index for moments only, and two merges at once leave files
 * of one missing. The kernel gives the turn to the next when we end, however we end; in the directory nothing is made for it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync } from 'node:fs';
import { errnoOf } from '../policy-problem.ts';
import { GitProblem } from './problem.ts';

const waitSeconds = 120;

/** @param directory git's own, which no box writes. @throws merge_refused */
export async function turnOver(directory: string, signal: AbortSignal): Promise<Disposable> {
  const descriptor = openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    // It locks what it has from us, so the lock is ours when it has ended.
    const child = spawn('/usr/bin/flock', ['-w', `${waitSeconds}`, '3'], {
      stdio: ['ignore', 'ignore', 'ignore', descriptor],
      env: {},
      signal,
    });
    const [code] = (await once(child, 'close')) as [number | null];
    if (code !== 0)
      throw new GitProblem(
        'merge_refused',
        `another merge is at work here for ${waitSeconds} seconds already`,
      );
  } catch (cause) {
    // A machine without the program has git's own locks.
    if (errnoOf(cause) !== 'ENOENT') {
      closeSync(descriptor);
      signal.throwIfAborted();
      throw cause;
    }
  }
  return { [Symbol.dispose]: () => closeSync(descriptor) };
}
