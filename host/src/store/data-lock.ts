/**
 * One daemon per data directory, also where two name different run directories or see it in other namespaces.
 *
 * The lock is SQLite's own on an empty database, `daemon.lock`: Node has no `flock`, and this one is the kernel's,
 * so it goes with the process that held it, however that died. A file with a process id in it would not.
 * `squash-launch enter` looks at it before it ends or makes anything.
 */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { AppError } from '@squash/contract/errors';

/** Held until disposed. @throws data_locked */
export function lockDataDirectory(dataDir: string): Disposable {
  const lock = new DatabaseSync(join(dataDir, 'daemon.lock'), { timeout: 0 });
  try {
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (error) {
    lock.close();
    throw new AppError(
      'data_locked',
      `Cannot use data directory "${dataDir}": another daemon works in it: stop it, or set SQUASH_DATA to another directory`,
      { cause: error },
    );
  }
  let isHeld = true;
  return {
    [Symbol.dispose]: () => {
      if (isHeld) lock.close();
      isHeld = false;
    },
  };
}
