/**
 * Removing sandboxes, until it is done.
 *
 * A process that does not die (it sleeps in the kernel, it is frozen, squash-launch itself hangs) keeps a removal from ending. Whoever asked
 * is told so in time, and may go: from then on the daemon tries again by itself, and the next daemon goes on.
 */
import type { Problem } from '@squash/contract/daemon';
import { AppError } from '@squash/contract/errors';
import { limits } from '@squash/contract/limits';
import { errorText } from '@squash/base/bug';
import { removedError, removeSandbox } from '../sandbox/remove.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { World } from '../sandbox/world.ts';
import type { LocalModules } from './modules.ts';
import type { Residents } from './residents.ts';

interface Late {
  readonly why: string;
  readonly tries: number;
  readonly timer: NodeJS.Timeout | undefined;
}

export interface RemovalsOptions {
  readonly world: World;
  readonly residents: Residents;
  readonly modules: LocalModules;
}

export class Removals implements Disposable {
  readonly #options: RemovalsOptions;
  /** By the sandbox, not its id: that may be another's before the last one's promises are settled. */
  readonly #underWay = new Map<Sandbox, Promise<void>>();
  /** Those that did not end in time. */
  readonly #late = new Map<Sandbox, Late>();
  #isClosed = false;

  constructor(options: RemovalsOptions) {
    this.#options = options;
  }

  /** Resolves when nothing of it is left; one that is under way is waited for. @throws why it is tried again later */
  run(sandbox: Sandbox): Promise<void> {
    const underWay = this.#underWay.get(sandbox);
    if (underWay !== undefined) return underWay;
    clearTimeout(this.#late.get(sandbox)?.timer);
    const done = this.#remove(sandbox)
      .then(
        () => void this.#late.delete(sandbox),
        (error: unknown) => {
          throw this.later(sandbox, error);
        },
      )
      .finally(() => this.#underWay.delete(sandbox));
    this.#underWay.set(sandbox, done);
    return done;
  }

  /** Whether it is being removed, or will be by itself. */
  has(sandbox: Sandbox): boolean {
    return this.#underWay.has(sandbox) || this.#late.has(sandbox);
  }

  /** What an earlier daemon began. Resolves when all is done, or after a while: a start does not wait for what does not end. */
  async resume(): Promise<void> {
    const begun = this.#options.residents.all().filter(({ state }) => state.phase === 'destroying');
    await Promise.all(begun.map((sandbox) => this.#resumeOne(sandbox)));
  }

  /** Tries again by and by. @returns what to tell whoever waits */
  later(sandbox: Sandbox, error: unknown): unknown {
    const { id } = sandbox.row;
    if (this.#isClosed) return error;
    const { log } = this.#options.world;
    const tries = (this.#late.get(sandbox)?.tries ?? 0) + 1;
    const afterMs = Math.min(limits.removalAgainMs * 2 ** (tries - 1), limits.removalAgainMsMax);
    log.error('sandbox.destroy', { sandbox: id, tries, againMs: afterMs, error });
    clearTimeout(this.#late.get(sandbox)?.timer);
    // Its failure is told in the log, and here.
    const timer = setTimeout(() => void this.run(sandbox).catch(() => undefined), afterMs).unref();
    this.#late.set(sandbox, { why: errorText(error), tries, timer });
    if (!(error instanceof AppError)) return error;
    return new AppError(error.code, `${error.message}; the daemon goes on removing sandbox "${id}"`, {
      cause: error,
    });
  }

  problems(): readonly Problem[] {
    const [first] = this.#late;
    if (first === undefined) return [];
    const [{ row }, { why }] = first;
    const others = this.#late.size === 1 ? '' : ` and ${this.#late.size - 1} more`;
    const message = `sandbox "${row.id}"${others} could not be removed yet (${why}): the daemon goes on trying`;
    return [{ code: 'removal_pending', message }];
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    for (const { timer } of this.#late.values()) clearTimeout(timer);
  }

  async #resumeOne(sandbox: Sandbox): Promise<void> {
    const waited = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      this.#late.set(sandbox, { why: 'something in it does not end', tries: 0, timer: undefined });
      waited.resolve();
    }, limits.removalResumeMs);
    await Promise.race([this.run(sandbox).catch(() => undefined), waited.promise]);
    clearTimeout(timer);
  }

  async #remove(sandbox: Sandbox): Promise<void> {
    const { world, residents, modules } = this.#options;
    sandbox.removal.abort(removedError(sandbox));
    await Promise.allSettled(sandbox.merges.keys());
    // What waits is refused from here on: a full mailbox must not refuse the removal.
    await sandbox.mailbox.idle();
    // A create that failed meanwhile has undone itself.
    if (sandbox.isClosed && !this.#isClosed) return residents.remove(sandbox);
    await sandbox.mailbox.post(() => removeSandbox(sandbox));
    residents.remove(sandbox);
    world.counters.destroyed += 1;
    if (sandbox.snapshots.some((taken) => taken.digest !== null)) modules.collect();
  }
}
