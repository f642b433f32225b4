/**
 * The directories of the data directory that the egress process writes: it is held to them, so they are made before it is
 * there. `egress/` has its database, which releases before it kept beside `squash.db`.
 */
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const egressFolders = ['egress', 'log', 'proxy-ca'] as const;

/** @throws where the disk refuses */
export function makeEgressFolders(dataDir: string): void {
  takeOverDatabase(dataDir);
  for (const name of egressFolders) mkdirSync(join(dataDir, name), { recursive: true, mode: 0o700 });
}

/**
 * By way of a directory that takes its place in one step: whenever this is interrupted, a database and its log of writes are
 * never one of this and one of that time. Who has the old file open keeps its lock.
 */
function takeOverDatabase(dataDir: string): void {
  const next = join(dataDir, 'egress.next');
  const old = join(dataDir, 'egress.db');
  if (existsSync(old)) {
    mkdirSync(next, { recursive: true, mode: 0o700 });
    if (existsSync(`${old}-wal`)) renameSync(`${old}-wal`, join(next, 'egress.db-wal'));
    renameSync(old, join(next, 'egress.db'));
  }
  if (!existsSync(join(next, 'egress.db'))) return;
  rmSync(join(dataDir, 'egress'), { recursive: true, force: true });
  renameSync(next, join(dataDir, 'egress'));
}
