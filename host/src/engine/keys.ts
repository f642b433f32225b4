/**
 * API keys: made, shown, removed, and found by their tokens.
 *
 * All are in memory, by the hash of their tokens: a look-up is one SHA-256 and one look into a map. How long that takes
 * tells nothing of a token, because whoever tries one does not choose what its hash begins with. The database has
 * the hashes as well, and no token: 160 random bits need no slow hash.
 */
import { hash, randomBytes } from 'node:crypto';
import { AppError } from '@squash/contract/errors';
import { keyPrefix } from '@squash/contract/key-token';
import type { HeldKey, KeyBody, KeyCreated, KeyInfo } from '@squash/contract/keys';
import { limits } from '@squash/contract/limits';
import { type Clock, rfc3339 } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import type { KeyRow } from '#store/keys.ts';
import type { Store } from '#store/store.ts';

export interface Keys {
  /** Those that have expired count: they are refused, not forgotten. */
  readonly count: number;
  /** The key that has this token, where it holds; it counts as used. */
  find(token: string): HeldKey | undefined;
  /** Whether a key that was found holds still. */
  holds(id: string): boolean;
  /** On the disk when it returns, as a removal is. @throws invalid_request, key_limit, disk_full */
  create(body: KeyBody): KeyCreated;
  /** Sorted by id. */
  list(): readonly KeyInfo[];
  /** @throws key_not_found */
  get(id: string): KeyInfo;
  /** @throws key_not_found, disk_full */
  remove(id: string): void;
}

export interface KeysOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
}

export class LocalKeys implements Keys, Disposable {
  readonly #options: KeysOptions;
  readonly #byHash = new Map<string, KeyRow>();
  readonly #byId = new Map<string, KeyRow>();
  readonly #lastUsedMs = new Map<string, number>();
  /** Whose last use is not in the database yet. */
  readonly #used = new Set<string>();
  #writing: NodeJS.Timeout | undefined;

  constructor(options: KeysOptions) {
    this.#options = options;
    for (const row of options.store.read(() => options.store.keys.all())) this.#add(row);
  }

  get count(): number {
    return this.#byId.size;
  }

  find(token: string): HeldKey | undefined {
    if (this.#byHash.size === 0) return undefined;
    const row = this.#byHash.get(hash('sha256', token, 'hex'));
    if (row === undefined || !this.#isInTime(row)) return undefined;
    this.#lastUsedMs.set(row.id, this.#options.clock.wallMs());
    this.#used.add(row.id);
    this.#writing ??= setTimeout(() => this.#writeUses(), limits.keyUseMs).unref();
    return row;
  }

  holds(id: string): boolean {
    const row = this.#byId.get(id);
    return row !== undefined && this.#isInTime(row);
  }

  create({ name, owner, scope, expires_at: expiresAt }: KeyBody): KeyCreated {
    const { store, clock } = this.#options;
    const createdMs = clock.wallMs();
    const expiresMs = expiresAt ? Date.parse(expiresAt) : null;
    if (expiresMs !== null && expiresMs <= createdMs) {
      throw new AppError('invalid_request', `expires_at is ${rfc3339(expiresMs)}, which has passed`);
    }
    if (this.#byId.size >= limits.keysMax) {
      throw new AppError(
        'key_limit',
        `Cannot make a key: there are ${limits.keysMax}, the most there can be`,
      );
    }
    const token = `${keyPrefix}${randomBytes(20).toString('hex')}`;
    const row: KeyRow = {
      id: `key_${randomBytes(8).toString('hex')}`,
      hash: hash('sha256', token, 'hex'),
      name,
      owner,
      scope,
      createdMs,
      expiresMs,
      lastUsedMs: null,
    };
    store.durably(() => store.keys.insert(row));
    this.#add(row);
    return { ...this.get(row.id), token };
  }

  list(): readonly KeyInfo[] {
    return [...this.#byId.keys()].sort().map((id) => this.get(id));
  }

  get(id: string): KeyInfo {
    const { name, owner, scope, createdMs, expiresMs } = this.#row(id);
    const lastUsedMs = this.#lastUsedMs.get(id);
    return {
      id,
      name,
      owner,
      scope,
      created_at: rfc3339(createdMs),
      expires_at: expiresMs === null ? null : rfc3339(expiresMs),
      last_used_at: lastUsedMs === undefined ? null : rfc3339(lastUsedMs),
    };
  }

  remove(id: string): void {
    const { store } = this.#options;
    const row = this.#row(id);
    // What was revoked does not come back after a power cut.
    store.durably(() => store.keys.delete(id));
    this.#byId.delete(id);
    this.#byHash.delete(row.hash);
    this.#lastUsedMs.delete(id);
    this.#used.delete(id);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#writing);
    this.#writeUses();
  }

  #add(row: KeyRow): void {
    this.#byId.set(row.id, row);
    this.#byHash.set(row.hash, row);
    if (row.lastUsedMs !== null) this.#lastUsedMs.set(row.id, row.lastUsedMs);
  }

  #row(id: string): KeyRow {
    const row = this.#byId.get(id);
    if (row === undefined) throw new AppError('key_not_found', `Cannot find key "${id.slice(0, 64)}"`);
    return row;
  }

  #isInTime({ expiresMs }: KeyRow): boolean {
    return expiresMs === null || this.#options.clock.wallMs() < expiresMs;
  }

  #writeUses(): void {
    const { store, log } = this.#options;
    this.#writing = undefined;
    if (this.#used.size === 0) return;
    try {
      store.transaction(() => {
        for (const id of this.#used) store.keys.noteUse(id, this.#lastUsedMs.get(id) ?? 0);
      });
      this.#used.clear();
    } catch (error) {
      // On a full disk they are written with the next use.
      log.warn('keys.uses', { error });
    }
  }
}
