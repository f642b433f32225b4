/**
 * Brings the database's write-ahead log to the disk, off the daemon's thread: one sync for all who wait.
 *
 * A commit is in the log at once and survives the daemon. Once the log is synced it survives a power cut, too, together
 * with every commit before it. SQLite's own locks lie on other files, so one more descriptor of the log harms none.
 */
import { close, fdatasync, open } from 'node:fs';
import { promisify } from 'node:util';
import { limits } from '@squash/contract/limits';

const openFile = promisify(open);
const syncFile = promisify(fdatasync);
const closeFile = promisify(close);

export class LogSync implements Disposable {
  readonly #path: string;
  #file: number | undefined;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(databasePath: string) {
    this.#path = `${databasePath}-wal`;
  }

  /** Resolves when everything that was committed before the call is on the disk. @throws what the file system says */
  now(): Promise<void> {
    if (this.#running === undefined) return this.#begin();
    // The one that runs may have begun before the caller's commit.
    this.#next ??= this.#running.then(
      () => this.#begin(),
      () => this.#begin(),
    );
    return this.#next;
  }

  /** Within `logSyncMs`. */
  soon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      // The next commit tries again, and what is wrong with the disk SQLite meets as well.
      this.now().catch(() => undefined);
    }, limits.logSyncMs).unref();
  }

  /** The file is closed when nobody's sync is under way any more. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    const last = this.#next ?? this.#running ?? Promise.resolve();
    void last
      .catch(() => undefined)
      .then(async () => {
        if (this.#file !== undefined) await closeFile(this.#file);
      });
  }

  #begin(): Promise<void> {
    this.#next = undefined;
    this.#running = this.#sync().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #sync(): Promise<void> {
    // The log stays the same file while the database is open.
    this.#file ??= await openFile(this.#path, 'r');
    await syncFile(this.#file);
  }
}
