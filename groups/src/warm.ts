/**
 * Sandboxes that are kept between two runs of a chat, where its tier's row `warm_s` says so. Nothing of one runs meanwhile and nothing is
 * attached to it, so it holds up no other run; what is kept is what the agent left in its files.
 *
 * What a newcomer would get wrong: which are kept is known here and not in the rows. There the run that is over has its sandbox still, as one
 * has that is to be removed, so the next daemon removes all that this one kept.
 */
import type { Log } from '@squash/base/log';
import { AppError, type ErrorCode } from '@squash/contract/errors';
import { groupLimits } from '@squash/contract/group-limits';
import type { RunSandboxes } from './ports.ts';
import type { Registry } from './registry.ts';
import type { GroupRows, RunRow } from './rows.ts';

export interface WarmOptions {
  readonly rows: Pick<GroupRows, 'transaction' | 'run' | 'putRun'>;
  readonly registry: Pick<Registry, 'tierOf'>;
  readonly sandboxes: Pick<RunSandboxes, 'rest'>;
  readonly nowMs: () => number;
  readonly log: Log;
  /** Removes the sandbox that a run has still; does not reject. */
  readonly remove: (run: number) => Promise<void>;
}

interface Kept extends Pick<RunRow, 'chat' | 'group'> {
  readonly timer: NodeJS.Timeout;
}

/** What a sandbox is refused with that one less would leave room for. */
const full: ReadonlySet<ErrorCode> = new Set(['sandbox_limit', 'host_full', 'quota_exceeded', 'disk_full']);

export class Warm implements Disposable {
  readonly #options: WarmOptions;
  /** By the run that was in it; oldest first. */
  readonly #kept = new Map<number, Kept>();

  constructor(options: WarmOptions) {
    this.#options = options;
  }

  has(run: number): boolean {
    return this.#kept.has(run);
  }

  /** Of a run that ended well. False: it is to be removed. */
  async keep({ run, group, chat, sandbox, isIsolated }: RunRow): Promise<boolean> {
    const { registry, sandboxes, rows, nowMs, log } = this.#options;
    const seconds = (): number => registry.tierOf(group).warm_s;
    if (sandbox === null || isIsolated || seconds() === 0) return false;
    try {
      if (!(await sandboxes.rest(sandbox, seconds()))) return false;
      while (this.#kept.size >= groupLimits.warmMax && (await this.#endOldest())) continue;
      // The tier may have changed meanwhile.
      const forMs = seconds() * 1_000;
      const row = rows.run(run);
      if (row === undefined || forMs === 0) return false;
      rows.transaction(() => rows.putRun({ ...row, warmUntilMs: nowMs() + forMs }));
      const timer = setTimeout(() => void this.#end(run), forMs).unref();
      this.#kept.set(run, { chat, group, timer });
      return true;
    } catch (error) {
      log.warn('group.warm', { run, sandbox, error });
      return false;
    }
  }

  /**
   * The sandbox of the chat's last run, which belongs to the caller from here on. He holds the transaction; where that fails the row
   * has the sandbox still, and it is removed like any that is left.
   */
  take(chat: string): string | undefined {
    const { rows } = this.#options;
    const run = [...this.#kept].find(([, kept]) => kept.chat === chat)?.[0];
    const row = run === undefined ? undefined : rows.run(run);
    if (row === undefined) return undefined;
    this.#forget(row.run);
    rows.putRun({ ...row, sandbox: null, warmUntilMs: null });
    return row.sandbox ?? undefined;
  }

  /** Resolves when none of those is kept any more, or is being removed. */
  async end(isMeant: (kept: Pick<RunRow, 'chat' | 'group'>) => boolean): Promise<void> {
    const meant = (): readonly number[] =>
      [...this.#kept].filter(([, kept]) => isMeant(kept)).map(([run]) => run);
    for (let runs = meant(); runs.length > 0; runs = meant())
      await Promise.all(runs.map((run) => this.#end(run)));
  }

  /** Makes a sandbox; where there is no room for it, with one less that is kept, and so on. @throws what `make` does */
  async withRoom(make: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        await make();
        return;
      } catch (error) {
        const isFull = error instanceof AppError && full.has(error.code);
        if (!isFull || !(await this.#endOldest())) throw error;
      }
    }
  }

  [Symbol.dispose](): void {
    for (const run of this.#kept.keys()) this.#forget(run);
  }

  async #endOldest(): Promise<boolean> {
    const [oldest] = this.#kept.keys();
    if (oldest === undefined) return false;
    await this.#end(oldest);
    return true;
  }

  async #end(run: number): Promise<void> {
    this.#forget(run);
    await this.#options.remove(run);
  }

  #forget(run: number): void {
    clearTimeout(this.#kept.get(run)?.timer);
    this.#kept.delete(run);
  }
}
