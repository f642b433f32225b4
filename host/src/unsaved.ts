/**
 * What ephemeral mode could not save when the daemon ends: told by the exit code, and left in the run directory for `squash stop`,
 * which can ask nobody any more.
 */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Unsaved, type UnsavedFile, unsavedFile } from '@squash/contract/daemon';
import type { Log } from '@squash/base/log';
import { exitUnsaved } from './endings.ts';

export class UnsavedEnd {
  readonly #path: string;
  readonly #log: Log;
  #isTold = false;

  /** Call when the data directory is ours: what an earlier daemon has left is forgotten. */
  constructor(runDir: string, log: Log) {
    this.#path = join(runDir, unsavedFile);
    this.#log = log;
    rmSync(this.#path, { force: true });
  }

  tell(sandboxes: readonly Unsaved[]): void {
    if (sandboxes.length === 0) return;
    this.#isTold = true;
    const text: UnsavedFile = { pid: process.pid, sandboxes };
    try {
      writeFileSync(this.#path, JSON.stringify(text));
    } catch (error) {
      // The exit code says it all the same.
      this.#log.warn('ephemeral.untold', { error });
    }
  }

  /** @param code of an end at which all was saved */
  exitCode(code: number): number {
    return code === 0 && this.#isTold ? exitUnsaved : code;
  }
}
