/**
 * Opens the state of a data directory for a daemon. A database that is missing, empty or was never used beside sandboxes
 * on the disk was lost or exchanged: a daemon on it would end what runs of them and call their files strangers. It refuses
 * to start instead, until `squash doctor --repair` has taken in what there is.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import { sandboxIdSchema } from '@squash/contract/ids';
import type { Reserve } from './reserve.ts';
import { isOriginals } from './sandbox-file.ts';
import { Store } from './store.ts';

/** @throws database_missing, and as `openDatabase` */
export function openState(dataDir: string, reserve: Reserve): Store {
  const path = databasePath(dataDir);
  reserve.giveUpIfFull();
  if (isBlank(path)) refuseBeside(dataDir);
  const store = new Store(path, () => reserve.giveUp());
  try {
    if (!store.read(() => store.sandboxes.wasUsed())) refuseBeside(dataDir);
    return store;
  } catch (error) {
    store[Symbol.dispose]();
    throw error;
  }
}

export function databasePath(dataDir: string): string {
  return join(dataDir, 'squash.db');
}

/** SQLite takes an empty file for a new database. */
export function isBlank(path: string): boolean {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0;
}

function refuseBeside(dataDir: string): void {
  const directory = join(dataDir, 'sandboxes');
  const names = readdirSync(directory).filter(
    (name) =>
      sandboxIdSchema.safeParse(name).success &&
      // Those of the original have no rows yet.
      !isOriginals(join(directory, name)) &&
      holdsFiles(join(directory, name)),
  );
  if (names.length === 0) return;
  throw new AppError(
    'database_missing',
    `Cannot start on "${dataDir}": ${names.length} sandboxes lie there ("${names[0]}" …) and "squash.db" is missing or was never used: put it back, or let "squash doctor --repair" rebuild it from the sandboxes' directories`,
  );
}

function holdsFiles(sandbox: string): boolean {
  return readdirSync(sandbox).some((part) => {
    const path = join(sandbox, part);
    return !statSync(path).isDirectory() || readdirSync(path).length > 0;
  });
}
