/** Owners: whoever is named by a sandbox, a key or a quota. */
import type { OwnerInfo, Quota, QuotaBody } from '@squash/contract/keys';
import type { Keys } from './keys.ts';
import { noUse, type Quotas, unbounded } from './quotas.ts';
import type { Residents } from './residents.ts';

export interface Owners {
  /** Sorted by name. */
  list(): readonly OwnerInfo[];
  get(owner: string): OwnerInfo;
  /** What is left out is not bounded. @throws disk_full */
  setQuota(owner: string, quota: QuotaBody): OwnerInfo;
}

export interface OwnersOptions {
  readonly residents: Residents;
  readonly keys: Keys;
  readonly quotas: Quotas;
}

export class LocalOwners implements Owners {
  readonly #options: OwnersOptions;

  constructor(options: OwnersOptions) {
    this.#options = options;
  }

  list(): readonly OwnerInfo[] {
    const { keys, quotas } = this.#options;
    const uses = quotas.uses();
    const counts = new Map<string, number>();
    for (const { owner } of keys.list()) counts.set(owner, (counts.get(owner) ?? 0) + 1);
    return [...new Set([...uses.keys(), ...counts.keys(), ...quotas.owners()])].sort().map((owner) => ({
      owner,
      keys: counts.get(owner) ?? 0,
      quota: quotas.of(owner),
      use: uses.get(owner) ?? noUse,
    }));
  }

  get(owner: string): OwnerInfo {
    const { keys, quotas } = this.#options;
    return {
      owner,
      keys: keys.list().filter((key) => key.owner === owner).length,
      quota: quotas.of(owner),
      use: quotas.uses().get(owner) ?? noUse,
    };
  }

  setQuota(owner: string, body: QuotaBody): OwnerInfo {
    const bounds = Object.entries(body).filter(([, bound]) => bound !== undefined);
    const quota: Quota = { ...unbounded, ...Object.fromEntries(bounds) };
    this.#options.quotas.set(owner, quota);
    return this.get(owner);
  }
}
