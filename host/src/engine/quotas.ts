/**
 * What each owner may have, against what it has. One thread: whoever checks and then takes its place without waiting in between
 * has done both in one step.
 *
 * What a newcomer would get wrong: a quota is the owner's, not the caller's. It holds for the operator, too, who makes something
 * for that owner.
 */
import { AppError } from '@squash/contract/errors';
import type { Quota, QuotaUse } from '@squash/contract/keys';
import { memoryBytesGiven } from '../drivers/driver.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Store } from '#store/store.ts';
import type { Residents } from './residents.ts';

const mib = 1_048_576;

export const unbounded: Quota = { sandboxes: null, memory_mb: null, cpu: null, disk_mb: null, execs: null };
export const noUse: QuotaUse = { sandboxes: 0, memory_mb: 0, cpu: 0, disk_mb: 0, execs: 0 };

const words: Readonly<Record<keyof Quota, string>> = {
  sandboxes: 'sandboxes',
  memory_mb: 'MiB of memory',
  cpu: 'processors',
  disk_mb: 'MiB of disk',
  execs: 'running commands',
};

/** A create that has no row yet, what a sandbox is to have more, or a file that is not a snapshot yet. */
export interface Asking {
  readonly owner: string;
  readonly sandboxes: 0 | 1;
  readonly memoryBytes: number;
  readonly cpus: number;
  readonly diskBytes: number;
}

export class Quotas {
  readonly #store: Store;
  readonly #residents: Residents;
  readonly #quotas: Map<string, Quota>;
  readonly #files = new Set<Asking>();

  constructor(store: Store, residents: Residents) {
    this.#store = store;
    this.#residents = residents;
    this.#quotas = new Map(store.read(() => store.keys.quotas()));
  }

  /** Owners that have one. */
  owners(): Iterable<string> {
    return this.#quotas.keys();
  }

  of(owner: string): Quota {
    return this.#quotas.get(owner) ?? unbounded;
  }

  /** @throws disk_full */
  set(owner: string, quota: Quota): void {
    const store = this.#store;
    const isNone = Object.values(quota).every((bound) => bound === null);
    store.durably(() => (isNone ? store.keys.deleteQuota(owner) : store.keys.setQuota(owner, quota)));
    if (isNone) this.#quotas.delete(owner);
    else this.#quotas.set(owner, quota);
  }

  /** Of everybody who has a sandbox or a volume. */
  uses(): ReadonlyMap<string, QuotaUse> {
    const uses = new Map<string, QuotaUse>();
    for (const sandbox of this.#residents.all()) {
      const { owner } = sandbox.row;
      uses.set(owner, sum(uses.get(owner) ?? noUse, useOfSandbox(sandbox)));
    }
    const volumes = this.#store.read(() => this.#store.volumes.bytesByOwner());
    for (const [owner, bytes] of volumes)
      uses.set(owner, sum(uses.get(owner) ?? noUse, { ...noUse, disk_mb: bytes / mib }));
    return uses;
  }

  /** @param others creates on their way, of any owner @throws quota_exceeded */
  checkCreate(what: string, own: Asking, others: Iterable<Asking>): void {
    const { owner } = own;
    const quota = this.#quotas.get(owner);
    if (quota === undefined) return;
    const coming = [own, ...others].filter((each) => each.owner === owner).map(useOfAsking);
    refuseAbove(what, owner, { quota, use: coming.reduce(sum, this.#useOf(owner)), isCreate: true });
  }

  /** What does not grow is not looked at: a sandbox above the quota may have less. @throws quota_exceeded */
  checkGrowth(what: string, own: Asking, others: Iterable<Asking>): void {
    const quota = this.#quotas.get(own.owner);
    if (quota === undefined) return;
    const coming = [own, ...others].filter(({ owner }) => owner === own.owner).map(useOfAsking);
    const bounds = {
      memory_mb: own.memoryBytes > 0 ? quota.memory_mb : null,
      cpu: own.cpus > 0 ? quota.cpu : null,
    };
    const use = coming.reduce(sum, this.#useOf(own.owner));
    refuseAbove(what, own.owner, { quota: { ...unbounded, ...bounds }, use });
  }

  /** Takes room for a file until it is a snapshot's. @param bytes for what has no size yet, one @throws quota_exceeded */
  holdDisk(what: string, owner: string, bytes: number): Disposable {
    const file: Asking = { owner, sandboxes: 0, memoryBytes: 0, cpus: 0, diskBytes: bytes };
    const most = this.#quotas.get(owner)?.disk_mb ?? null;
    if (most !== null) {
      const use = sum(this.#useOf(owner), useOfAsking(file));
      refuseAbove(what, owner, { quota: { ...unbounded, disk_mb: most }, use });
    }
    this.#files.add(file);
    return { [Symbol.dispose]: () => void this.#files.delete(file) };
  }

  /** @throws quota_exceeded */
  checkExec({ id, owner }: Sandbox['row']): void {
    const most = this.#quotas.get(owner)?.execs;
    if (most === undefined || most === null) return;
    let execs = 1;
    for (const sandbox of this.#residents.all()) if (sandbox.row.owner === owner) execs += sandbox.runs.size;
    const use = { ...noUse, execs };
    refuseAbove(`start a command in sandbox "${id}"`, owner, { quota: { ...unbounded, execs: most }, use });
  }

  /** With the files that are on their way. */
  #useOf(owner: string): QuotaUse {
    const files = [...this.#files].filter((file) => file.owner === owner).map(useOfAsking);
    return files.reduce(sum, this.uses().get(owner) ?? noUse);
  }
}

function useOfSandbox({ row, snapshots, runs }: Sandbox): QuotaUse {
  const upperBytes = row.upperKind === 'tmpfs' ? 0 : row.limits.upperBytesMax;
  return {
    sandboxes: 1,
    memory_mb: memoryBytesGiven(row.backend, row.memoryMb * mib) / mib,
    cpu: row.cpu,
    disk_mb:
      snapshots.reduce((bytes, { size, memory }) => bytes + size + (memory?.bytes ?? 0), upperBytes) / mib,
    execs: runs.size,
  };
}

function useOfAsking({ sandboxes, memoryBytes, cpus, diskBytes }: Asking): QuotaUse {
  return { sandboxes, memory_mb: memoryBytes / mib, cpu: cpus, disk_mb: diskBytes / mib, execs: 0 };
}

function sum(one: QuotaUse, other: QuotaUse): QuotaUse {
  return {
    sandboxes: one.sandboxes + other.sandboxes,
    memory_mb: one.memory_mb + other.memory_mb,
    cpu: one.cpu + other.cpu,
    disk_mb: one.disk_mb + other.disk_mb,
    execs: one.execs + other.execs,
  };
}

/** Commands that run already are no matter of a create. */
function refuseAbove(
  what: string,
  owner: string,
  asked: { readonly quota: Quota; readonly use: QuotaUse; readonly isCreate?: boolean },
): void {
  for (const part of Object.keys(words) as (keyof Quota)[]) {
    const most = asked.quota[part];
    // Sums of processors such as 0.1 are not exact.
    if (most === null || asked.use[part] <= most + 1e-9 || (part === 'execs' && asked.isCreate === true))
      continue;
    throw new AppError(
      'quota_exceeded',
      `Cannot ${what}: owner "${owner}" would have ${Math.ceil(asked.use[part] * 100) / 100} ${words[part]}, and its quota is ${most}`,
    );
  }
}
