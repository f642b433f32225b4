/**
 * The engine's own files in the data directory: where they lie, how a sandbox's directory comes and goes, and
 * its shadow `sandbox.json`. What sandboxes wrote (uppers, layers) is the driver's and the launcher's.
 *
 * A directory leaves by one rename into `trash/`, which is atomic; the trash is emptied behind the caller's back
 * by the launcher, because a tree made by hostile code is not walked by Node.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync } from 'node:fs';
import { link, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { LayerDigest, SandboxId, SnapshotLabel } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { syncDirectory } from '@squash/base/atomic-file';
import { errorText } from '@squash/base/bug';
import { isErrno } from '@squash/base/errno';
import type { Log } from '@squash/base/log';
import type { SandboxRow, SnapshotRow } from '#store/rows.ts';
import type { MemoryFiles } from '../drivers/driver.ts';
import { type SandboxFile, readSandboxFile, writeSandboxFile } from '#store/sandbox-file.ts';

const snapshotSuffix = '.squashfs';
/** Of what may lie beside it: a microVM's memory and disk. Nothing is one of these but by its snapshot's row. */
const memorySuffixes = { memory: '.memory', disk: '.disk' } as const;

export interface FilesOptions {
  readonly dataDir: string;
  readonly log: Log;
  /** Removes a tree, given relative to the data directory, whatever it holds. */
  readonly removeTree: (path: string) => Promise<void>;
}

interface ShadowState {
  latest: { readonly sandbox: SandboxRow; readonly snapshots: readonly SnapshotRow[] } | undefined;
  /** Set while `latest` waits to be written. */
  timer: NodeJS.Timeout | undefined;
  writing: Promise<void>;
}

export class SandboxFiles {
  readonly #options: FilesOptions;
  readonly #shadows = new Map<SandboxId, ShadowState>();
  readonly #removals = new Set<Promise<void>>();
  /** What lies in the trash of a sandbox that may still run. */
  readonly #discarded = new Map<SandboxId, string>();
  /** Where the files are of one that is removed though they are saved nowhere. */
  readonly #aside = new Map<SandboxId, string>();

  constructor(options: FilesOptions) {
    this.#options = options;
  }

  directory(id: SandboxId): string {
    return join(this.#options.dataDir, 'sandboxes', id);
  }

  shadow(id: SandboxId): string {
    return join(this.directory(id), '.meta', 'sandbox.json');
  }

  snapshot(id: SandboxId, label: SnapshotLabel): string {
    return join(this.directory(id), 'snapshots', `${label}${snapshotSuffix}`);
  }

  snapshotMemory(id: SandboxId, label: SnapshotLabel): MemoryFiles {
    const beside = join(this.directory(id), 'snapshots', label);
    return { memory: beside + memorySuffixes.memory, disk: beside + memorySuffixes.disk };
  }

  layer(digest: LayerDigest): string {
    return join(this.#options.dataDir, 'layers', digest);
  }

  /** Whatever hinders the look makes it unusable, too. At once: another thread would take ten times as long as the look. */
  exists(path: string): boolean {
    return existsSync(path);
  }

  /** The directory of a new sandbox. What belongs in it is made with its first file: many sandboxes never have one. */
  make(id: SandboxId): void {
    mkdirSync(this.directory(id), { recursive: true, mode: 0o700 });
  }

  /** Takes the directory away at once and for good. Its space comes back with `clear`. */
  async discard(id: SandboxId): Promise<void> {
    const name = await this.#moveTo('trash', id);
    if (name !== undefined) this.#discarded.set(id, name);
  }

  /**
   * Takes the directory away and keeps it below `unsaved`, which nobody empties: put back under its id it is a stranger's, which
   * `doctor --repair` takes in. Call when nothing runs on it, before it is removed. @returns its path in the data directory
   */
  async setAside(id: SandboxId): Promise<string | undefined> {
    await mkdir(join(this.#options.dataDir, 'unsaved'), { recursive: true, mode: 0o700 });
    const shadow = this.#shadows.get(id);
    if (shadow !== undefined) {
      this.#flush(id, shadow);
      await shadow.writing;
    }
    const name = await this.#moveTo('unsaved', id);
    if (name !== undefined) this.#aside.set(id, name);
    return name;
  }

  /** Where `setAside` has put it. */
  asideOf(id: SandboxId): string | undefined {
    return this.#aside.get(id);
  }

  async #moveTo(folder: 'trash' | 'unsaved', id: SandboxId): Promise<string | undefined> {
    const shadow = this.#shadows.get(id);
    this.#shadows.delete(id);
    clearTimeout(shadow?.timer);
    await shadow?.writing;
    const name = join(folder, `${id}.${randomBytes(6).toString('hex')}`);
    try {
      await rename(this.directory(id), join(this.#options.dataDir, name));
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return undefined;
      throw error;
    }
    await syncDirectory(join(this.#options.dataDir, folder));
    await syncDirectory(join(this.#options.dataDir, 'sandboxes'));
    return name;
  }

  /** Removes what was discarded; call when nothing uses it. Never rejects: what stays goes with the next daemon. */
  async clear(id: SandboxId): Promise<void> {
    const name = this.#discarded.get(id);
    this.#discarded.delete(id);
    this.#aside.delete(id);
    if (name !== undefined) await this.#remove(name);
  }

  async dropSnapshot(id: SandboxId, label: SnapshotLabel): Promise<void> {
    await rm(this.snapshot(id, label), { force: true });
    await this.dropSnapshotMemory(id, label);
  }

  async dropSnapshotMemory(id: SandboxId, label: SnapshotLabel): Promise<void> {
    for (const path of Object.values(this.snapshotMemory(id, label))) await rm(path, { force: true });
  }

  /** The same file under a second label; what has that label is a crash's. One that is missing stays missing. */
  async linkSnapshot(id: SandboxId, from: SnapshotLabel, to: SnapshotLabel): Promise<void> {
    await this.dropSnapshot(id, to);
    await linkFound(this.snapshot(id, from), this.snapshot(id, to));
    await syncDirectory(dirname(this.snapshot(id, to)));
  }

  /** Behind `linkSnapshot`. */
  async linkSnapshotMemory(id: SandboxId, from: SnapshotLabel, to: SnapshotLabel): Promise<void> {
    const [source, target] = [this.snapshotMemory(id, from), this.snapshotMemory(id, to)];
    await linkFound(source.memory, target.memory);
    await linkFound(source.disk, target.disk);
    await syncDirectory(dirname(target.memory));
  }

  /** Takes over two files of the data directory, on the disk when it resolves. Nobody reads them but the daemon, and a VMM that is given them. */
  async takeSnapshotMemory(id: SandboxId, label: SnapshotLabel, from: MemoryFiles): Promise<void> {
    const to = this.snapshotMemory(id, label);
    await makeDirectory(dirname(to.memory));
    for (const part of ['memory', 'disk'] as const) {
      const file = await open(from[part], 'r+');
      try {
        await file.chmod(0o600);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(from[part], to[part]);
    }
    await syncDirectory(dirname(to.memory));
  }

  /** A file under a second name, of another sandbox: neither changes it. */
  async shareSnapshot(
    path: string,
    to: { readonly id: SandboxId; readonly label: SnapshotLabel },
  ): Promise<void> {
    const shared = this.snapshot(to.id, to.label);
    await makeDirectory(dirname(shared));
    await link(path, shared);
    await syncDirectory(dirname(shared));
  }

  /** Takes over a file of the data directory, synced, and says its size. Image tools read it as another user. */
  async takeSnapshot(id: SandboxId, label: SnapshotLabel, hostPath: string): Promise<number> {
    const path = this.snapshot(id, label);
    await makeDirectory(dirname(path));
    await rename(hostPath, path);
    const file = await open(path, 'r+');
    try {
      await file.chmod(0o644);
      await file.sync();
      await syncDirectory(dirname(path));
      return (await file.stat()).size;
    } finally {
      await file.close();
    }
  }

  /** The files in a sandbox's `snapshots/`, without their suffix. */
  async snapshotFiles(
    id: SandboxId,
  ): Promise<readonly { readonly name: string; readonly size: number; readonly modifiedMs: number }[]> {
    const directory = join(this.directory(id), 'snapshots');
    const found = [];
    for (const file of await readdir(directory).catch(() => [])) {
      const facts = await lstat(join(directory, file)).catch(() => undefined);
      if (!file.endsWith(snapshotSuffix) || facts?.isFile() !== true) continue;
      const name = file.slice(0, -snapshotSuffix.length);
      found.push({ name, size: facts.size, modifiedMs: Math.round(facts.mtimeMs) });
    }
    return found;
  }

  /** A name in `tmp/`; what is made there belongs to nobody and goes at the next start. */
  temporary(purpose: string): string {
    return join(this.#options.dataDir, 'tmp', `${purpose}-${randomBytes(6).toString('hex')}`);
  }

  /**
   * Brings the shadow up to these rows within `shadowDelayMs`. Never fails the caller. A sandbox that lives shorter
   * than that never has one, and a burst of creates is not held up by two syncs for each.
   */
  follow(sandbox: SandboxRow, snapshots: readonly SnapshotRow[]): void {
    const { id } = sandbox;
    const state = this.#shadows.get(id) ?? {
      latest: undefined,
      timer: undefined,
      writing: Promise.resolve(),
    };
    this.#shadows.set(id, state);
    state.latest = { sandbox, snapshots };
    state.timer ??= setTimeout(() => this.#flush(id, state), limits.shadowDelayMs);
  }

  read(id: SandboxId): Promise<SandboxFile | undefined> {
    return readSandboxFile(this.shadow(id));
  }

  /** Names in `sandboxes/`. */
  async directories(): Promise<readonly string[]> {
    return readdir(join(this.#options.dataDir, 'sandboxes'));
  }

  /** Removes what belongs to nobody: left by a daemon that died. */
  async emptyLeftovers(): Promise<void> {
    for (const folder of ['tmp', 'trash']) {
      for (const name of await readdir(join(this.#options.dataDir, folder)))
        void this.#remove(join(folder, name));
    }
    const sandboxes = await readdir(join(this.#options.dataDir, 'sandboxes'));
    for (const folder of ['', 'secrets', ...sandboxes.map((name) => join('sandboxes', name, '.meta'))])
      await this.#removeHalfWritten(join(this.#options.dataDir, folder));
  }

  /** What a daemon or a machine that ended had not yet given its name: see `writeFileAtomic`. */
  async #removeHalfWritten(folder: string): Promise<void> {
    // No such folder, or not ours to look into: then nothing of ours is in it.
    const names = await readdir(folder).catch(() => []);
    for (const name of names.filter((each) => /\.[0-9a-f]{12}\.new$/.test(each)))
      await rm(join(folder, name));
  }

  /** Resolves when all shadows are written and all removals done. */
  async settle(): Promise<void> {
    for (const [id, state] of this.#shadows) this.#flush(id, state);
    await Promise.all([...this.#shadows.values()].map((state) => state.writing));
    await Promise.all(this.#removals);
  }

  #flush(id: SandboxId, state: ShadowState): void {
    clearTimeout(state.timer);
    state.timer = undefined;
    state.writing = state.writing.then(() => this.#write(id, state));
  }

  async #write(id: SandboxId, state: ShadowState): Promise<void> {
    const { latest } = state;
    state.latest = undefined;
    if (latest === undefined || this.#shadows.get(id) !== state) return;
    try {
      await makeDirectory(dirname(this.shadow(id)));
      await writeSandboxFile(this.shadow(id), latest.sandbox, latest.snapshots);
    } catch (error) {
      // The database has it; the next change or the next daemon writes it again.
      this.#options.log.warn('sandbox.shadow', { sandbox: id, error });
    }
  }

  #remove(path: string): Promise<void> {
    const removal = this.#options
      .removeTree(path)
      .catch((error: unknown) => {
        // It stays in the trash, which the next daemon empties.
        this.#options.log.warn('trash.remove', { path, error: errorText(error) });
      })
      .finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
    return removal;
  }
}

async function linkFound(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) throw error;
  }
}

/** Without its parents: those of a sandbox that is gone must not come back. */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (!isErrno(error, 'EEXIST')) throw error;
  }
}
