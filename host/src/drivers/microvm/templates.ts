/**
 * Memory of machines that wait to be copied, one file for each kind, of which every VM of that kind is started.
 *
 * A kind is all that the memory depends on. A template is a cache and no more: one that is missing, broken or of another host means a
 * boot, and nothing else. Its file is named by its digest, and gets its name when it is whole.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { chmod, mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '@squash/base/clock';
import type { Log } from '@squash/base/log';
import { fileDigest, fingerprint } from '@squash/base/file-digest';
import { unlessAborted } from '@squash/base/unless-aborted';
import type { DiskSweep } from '../driver.ts';
import type { PlannedVm } from './vm-plan.ts';
import type { VmmStart } from './vmm-channel.ts';

const templatesMax = 8;
const bytesMax = 2_147_483_648;
/** What could not be made is not tried again with each start. */
const failedMs = 600_000;
/** Kinds that are remembered: of more than these the daemon begins anew. */
const kindsMax = 100;
const folder = 'vm/templates';

/** The name of a file begins with where it may be used, which is the VM module and the operator's monitor, this release's first program, and the host since it started. */
const namePattern = /^(?<place>[0-9a-f]{16})-(?<kind>[0-9a-f]{32})-(?<digest>[0-9a-f]{64})$/;

export interface TemplateKind {
  readonly place: string;
  readonly kind: string;
}

export function templateKind(
  { module: { root, initrd }, program }: Pick<PlannedVm, 'module' | 'program'>,
  still: VmmStart,
): TemplateKind {
  const host = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1');
  return {
    place: digestOf([root, program ?? null, initrd, host]).slice(0, 16),
    kind: digestOf(still).slice(0, 32),
  };
}

export class Templates {
  readonly #dataDir: string;
  readonly #log: Pick<Log, 'warn'>;
  readonly #asked = new Map<string, Promise<string | undefined>>();
  readonly #failedMs = new Map<string, number>();
  /** A kind's first VM since the daemon started boots: many a kind has no second one. */
  readonly #wanted = new Set<string>();
  /** Of those whose digest was that of their name: what the file was then. */
  readonly #whole = new Map<string, string>();
  #swept: Promise<void> | undefined;

  constructor(dataDir: string, log: Pick<Log, 'warn'>) {
    this.#dataDir = dataDir;
    this.#log = log;
  }

  /**
   * The one of this kind, relative to the data directory; where there is none and one was wanted before, `make` writes it to the path it
   * is given, and all who ask meanwhile wait for that. Undefined where it can't be made, or nobody is asked to.
   */
  async get(
    kind: TemplateKind,
    make: ((path: string) => Promise<void>) | undefined,
    signal?: AbortSignal,
  ): Promise<string | undefined> {
    const key = keyOf(kind);
    const asked = this.#asked.get(key);
    if (asked !== undefined) return await unlessAborted(asked, signal);
    const isFirst = make !== undefined && !this.#wanted.has(key);
    if (isFirst) remember(this.#wanted, () => this.#wanted.add(key));
    const maker = isFirst ? undefined : make;
    const found = this.#findOrMake(kind, maker).catch((error: unknown) => {
      // Whatever it was, a VM boots without a template.
      if (signal?.aborted === true) return undefined;
      if (!this.#failedMs.has(key)) this.#log.warn('vm.template', { template: key, error });
      remember(this.#failedMs, () => this.#failedMs.set(key, performance.now()));
      return undefined;
    });
    if (maker === undefined) return await found;
    const making = found.finally(() => this.#asked.delete(key));
    this.#asked.set(key, making);
    return await making;
  }

  /** One that no VM can go on from. */
  async discard(path: string, error: unknown): Promise<void> {
    this.#log.warn('vm.template', { template: path.slice(folder.length + 1), error });
    await rm(join(this.#dataDir, path), { force: true });
  }

  /** All of them, where no VM can be started any more; removes them unless that is only asked. */
  async unused(hasModule: boolean, isDry: boolean): Promise<DiskSweep> {
    const names = await this.#names();
    if (hasModule) return { all: names.length, swept: 0, bytes: 0 };
    let bytes = 0;
    for (const name of names) {
      bytes += (await stat(this.#pathOf(name))).blocks * 512;
      if (!isDry) await rm(this.#pathOf(name), { force: true });
    }
    return { all: names.length, swept: names.length, bytes };
  }

  async #findOrMake(
    kind: TemplateKind,
    make: ((path: string) => Promise<void>) | undefined,
  ): Promise<string | undefined> {
    this.#swept ??= this.#sweep(kind.place);
    await this.#swept;
    const found = await this.#find(kind);
    if (found !== undefined) return found;
    if (make === undefined) return undefined;
    const failed = this.#failedMs.get(keyOf(kind));
    if (failed !== undefined && performance.now() - failed < failedMs) return undefined;
    const path = join(this.#dataDir, 'tmp', `template-${randomBytes(6).toString('hex')}`);
    try {
      await make(path);
      return await this.#keep(kind, path);
    } finally {
      await rm(path, { force: true });
    }
  }

  async #find(kind: TemplateKind): Promise<string | undefined> {
    for (const name of await this.#names()) {
      if (!name.startsWith(`${keyOf(kind)}-`)) continue;
      const path = this.#pathOf(name);
      if (await this.#isWhole(name)) {
        const seconds = systemClock.wallMs() / 1000;
        await utimes(path, seconds, seconds);
        await this.#remember(name);
        return `${folder}/${name}`;
      }
      await rm(path, { force: true });
    }
    return undefined;
  }

  /** Read through once in the daemon's life, and again where anybody has touched it since. */
  async #isWhole(name: string): Promise<boolean> {
    const path = this.#pathOf(name);
    if (this.#whole.get(name) === (await identityOf(path))) return true;
    return name.endsWith(await digestOfFile(path));
  }

  async #remember(name: string): Promise<void> {
    const identity = await identityOf(this.#pathOf(name));
    remember(this.#whole, () => this.#whole.set(name, identity));
  }

  async #keep(kind: TemplateKind, path: string): Promise<string> {
    const name = `${keyOf(kind)}-${await digestOfFile(path)}`;
    // The VMM is not the daemon's id, and the umask may be anything.
    await chmod(path, 0o644);
    await mkdir(join(this.#dataDir, folder), { recursive: true, mode: 0o700 });
    await rename(path, this.#pathOf(name));
    await this.#remember(name);
    await this.#prune();
    return `${folder}/${name}`;
  }

  /** Who was used last stays, as far as all together are not too many. */
  async #prune(): Promise<void> {
    const files = await Promise.all(
      (await this.#names()).map(async (name) => ({ name, stat: await stat(this.#pathOf(name)) })),
    );
    files.sort((one, other) => other.stat.mtimeMs - one.stat.mtimeMs);
    let bytes = 0;
    for (const [at, file] of files.entries()) {
      bytes += file.stat.blocks * 512;
      if (at > 0 && (at >= templatesMax || bytes > bytesMax))
        await rm(this.#pathOf(file.name), { force: true });
    }
  }

  /** Those of another module, release or start of the host are of no use any more. */
  async #sweep(place: string): Promise<void> {
    for (const name of await this.#names()) {
      if (namePattern.exec(name)?.groups?.['place'] !== place) await rm(this.#pathOf(name), { force: true });
    }
  }

  async #names(): Promise<readonly string[]> {
    return await readdir(join(this.#dataDir, folder)).catch(() => []);
  }

  #pathOf(name: string): string {
    return join(this.#dataDir, folder, name);
  }
}

function remember(kinds: { readonly size: number; clear(): void }, add: () => void): void {
  if (kinds.size === kindsMax) kinds.clear();
  add();
}

function keyOf({ place, kind }: TemplateKind): string {
  return `${place}-${kind}`;
}

/** Of what it is as JSON. */
export function digestOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}

async function identityOf(path: string): Promise<string> {
  return fingerprint(await stat(path, { bigint: true }));
}

async function digestOfFile(path: string): Promise<string> {
  const file = await open(path, 'r');
  try {
    return await fileDigest(file);
  } finally {
    await file.close();
  }
}
