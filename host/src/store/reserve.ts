/**
 * Room that is kept for what must work on a full disk (a sandbox's removal, a daemon's start, a repair): a file of the
 * data directory that is given up first, and taken again when there is room.
 *
 * Its bytes are random and written out: zeros take no room on a file system that compresses, and a hole takes none on
 * any. It grows piece by piece, so that a disk with little room has a small one.
 */
import { randomBytes } from 'node:crypto';
import { rmSync, statfsSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { limits } from '@squash/contract/limits';

const chunkBytes = 1_048_576;

export class Reserve implements AsyncDisposable {
  readonly #dataDir: string;
  readonly #path: string;
  #timer: NodeJS.Timeout | undefined;
  #taking: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
    this.#path = join(dataDir, 'reserve');
  }

  /** For a start: gives it up where nothing could be written without. */
  giveUpIfFull(): void {
    if (freeBytes(this.#dataDir) < limits.reserveFreeBytesMin) this.giveUp();
  }

  /** The room is there when this returns. False where there was nothing to give. */
  giveUp(): boolean {
    const bytes = statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0;
    rmSync(this.#path, { force: true });
    this.#lookLater();
    return bytes > 0;
  }

  /** Takes it where there is room, and from now on whenever there is again. */
  keep(): void {
    this.#taking = this.#taking.then(() => this.#take());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#taking;
  }

  #lookLater(): void {
    clearTimeout(this.#timer);
    // Only while it is missing: an idle daemon does nothing.
    if (!this.#isClosed) this.#timer = setTimeout(() => this.keep(), limits.reserveLookMs).unref();
  }

  /** As much as it holds stays free beside it: whoever has just made room wants it for himself. */
  async #take(): Promise<void> {
    try {
      await using file = await open(this.#path, 'a', 0o600);
      let { size } = await file.stat();
      while (!this.#isClosed && size < limits.reserveBytes) {
        if (freeBytes(this.#dataDir) < size + 2 * chunkBytes) break;
        await file.write(randomBytes(chunkBytes));
        size += chunkBytes;
      }
      await file.sync();
      if (size >= limits.reserveBytes) return;
    } catch {
      // No room after all: what was written stays, and the next look goes on.
    }
    this.#lookLater();
  }
}

/** Room that this process may use: what a file system keeps for root is not counted. */
export function freeBytes(directory: string): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}
