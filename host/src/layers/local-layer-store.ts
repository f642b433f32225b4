/**
 * The layer store on this machine's disk: `modules/NNN-name.squashfs`, its manifests, and the unpacked trees.
 *
 * A module is whatever file lies in `modules/`: the directory is read each time, so an operator may drop one in.
 * Identity is the digest: replacing a module changes nothing for sandboxes that were made with the old one.
 */
import { randomBytes } from 'node:crypto';
import { constants, statSync } from 'node:fs';
import { copyFile, type FileHandle, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { AppError } from '@squash/contract/errors';
import { type LayerDigest, layerDigestSchema, type ModuleName, moduleNameSchema } from '@squash/contract/ids';
import { manifestSuffix } from '@squash/contract/manifest-suffix';
import type { ModuleManifest } from '@squash/contract/module-manifest';
import { syncDirectory } from '@squash/base/atomic-file';
import { isDiskFull, isErrno } from '@squash/base/errno';
import { fileDigest, fingerprint } from '@squash/base/file-digest';
import { DigestIndex, openForReading } from './digest-index.ts';
import type { LayerStore, LayerUse, ModuleDetails, ModuleInfo, Sweep } from './layer-store.ts';
import { manifestOfImport, readManifest, removeManifest, writeManifest } from './manifest.ts';
import { noPrograms, type Programs, programsOf } from './programs.ts';
import { superblockBytes, superblockFault } from './superblock.ts';
import { type ImageTool, TreeStore } from './tree-store.ts';
import { translateTrustedMarks } from './trusted-marks.ts';

const suffix = '.squashfs';
/** Layers of which it is remembered; then all are looked at once more. */
const programsMax = 4_096;

interface NewModule {
  readonly name: ModuleName;
  readonly digest: LayerDigest;
  readonly importedAt: string;
  readonly replace: boolean;
}

export class LocalLayerStore implements LayerStore {
  readonly #dataDir: string;
  readonly #digests: DigestIndex;
  readonly #trees: TreeStore;
  /** Imports and removals of one name take turns: a manifest and its file are two steps. */
  readonly #changing = new Map<ModuleName, Promise<unknown>>();
  /** Looks that begin in the event loop's next turn: a burst of creates asks for the same modules a hundred times. */
  readonly #looks = new Map<ModuleName, Promise<LayerDigest>>();
  /** What is in a tree never changes. */
  readonly #programs = new Map<LayerDigest, Programs>();
  /** By module: its digest, and how file and manifest looked when it was found. */
  readonly #verified = new Map<ModuleName, { readonly print: string; readonly digest: LayerDigest }>();

  constructor(options: { readonly dataDir: string; readonly tool: ImageTool }) {
    this.#dataDir = options.dataDir;
    this.#digests = new DigestIndex(join(options.dataDir, 'layers', 'index.json'));
    this.#trees = new TreeStore(options.dataDir, options.tool);
  }

  async modules(): Promise<readonly ModuleInfo[]> {
    const found: ModuleInfo[] = [];
    for (const file of (await readdir(join(this.#dataDir, 'modules'))).sort()) {
      const name = moduleNameSchema.safeParse(file.slice(0, -suffix.length));
      if (!file.endsWith(suffix) || !name.success) continue;
      try {
        const facts = await stat(this.#modulePath(name.data));
        if (facts.isFile()) found.push({ name: name.data, size: facts.size, location: 'local' });
      } catch (error) {
        // Removed since the directory was read.
        if (!isErrno(error, 'ENOENT')) throw error;
      }
    }
    return found;
  }

  async has(name: ModuleName): Promise<boolean> {
    return (await stat(this.#modulePath(name)).catch(() => undefined)) !== undefined;
  }

  /** Whoever asks before the look has begun shares it: what he put there before he asked is seen by it. */
  ensureModule(name: ModuleName): Promise<LayerDigest> {
    const present = this.#looks.get(name);
    if (present !== undefined) return present;
    const look = nextTurn().then(() => {
      this.#looks.delete(name);
      return this.#ensureModule(name);
    });
    this.#looks.set(name, look);
    return look;
  }

  async #ensureModule(name: ModuleName): Promise<LayerDigest> {
    const path = this.#modulePath(name);
    const digest = this.#digestAsVerified(name) ?? (await this.#verify(name));
    if (!this.#trees.has(digest)) await this.#unpack(path, digest, { what: `module "${name}"` });
    return digest;
  }

  async describe(name: ModuleName): Promise<ModuleDetails> {
    const path = this.#modulePath(name);
    const digest = this.#digestAsVerified(name) ?? (await this.#verify(name));
    const programs = this.#trees.has(digest) ? this.programs(digest) : undefined;
    const [{ size }, manifest] = await Promise.all([stat(path), readManifest(path, name)]).catch(
      (error: unknown) => {
        // Removed since.
        if (isErrno(error, 'ENOENT')) throw new AppError('module_not_found', `module not found: ${name}`);
        throw error;
      },
    );
    return { name, size, location: 'local', digest, manifest, programs };
  }

  async verify(name: ModuleName): Promise<ModuleDetails> {
    this.#verified.delete(name);
    await this.#digests.forget(indexKey(name));
    return await this.describe(name);
  }

  async putManifest(name: ModuleName, manifest: ModuleManifest): Promise<ModuleDetails> {
    await this.#inTurn(name, async () => {
      const digest = await this.#digestOf(name);
      if (manifest.squashfs_sha256 !== digest) {
        const [sent, own] = [manifest.squashfs_sha256.slice(0, 12), digest.slice(0, 12)];
        const text = `The manifest is of another file: it names ${sent}…, module "${name}" is ${own}…`;
        throw new AppError('invalid_request', text);
      }
      await writeManifest(this.#modulePath(name), { ...manifest, name }).catch((error: unknown) => {
        throw readFailure(error, `the manifest of module "${name}"`);
      });
    });
    return await this.describe(name);
  }

  async open(name: ModuleName): Promise<FileHandle> {
    await this.describe(name);
    return await open(this.#modulePath(name), 'r');
  }

  programs(digest: LayerDigest): Programs {
    const known = this.#programs.get(digest);
    if (known !== undefined) return known;
    // Collected meanwhile: whoever wants to run it unpacks it again.
    if (!this.#trees.has(digest)) return noPrograms;
    if (this.#programs.size >= programsMax) this.#programs.clear();
    const found = programsOf(join(this.#dataDir, 'layers', digest));
    this.#programs.set(digest, found);
    return found;
  }

  digestOf(hostPath: string): Promise<LayerDigest> {
    return this.#digests.digestOf(relative(this.#dataDir, hostPath), hostPath);
  }

  async ensureFile(
    hostPath: string,
    { digest, giveUp }: { readonly digest?: LayerDigest; readonly giveUp?: AbortSignal } = {},
  ): Promise<LayerDigest> {
    const what = `"${relative(this.#dataDir, hostPath)}"`;
    try {
      const actual = await this.digestOf(hostPath);
      if (digest !== undefined && digest !== actual) throw differs(what, digest, actual);
      if (!this.#trees.has(actual)) await this.#unpack(hostPath, actual, { what, giveUp });
      return actual;
    } catch (error) {
      if (isErrno(error, 'ENOENT'))
        throw new AppError('layer_corrupt', `Cannot use ${what}: the file is gone`);
      throw readFailure(error, what);
    }
  }

  async importModule(
    hostPath: string,
    name: ModuleName,
    options: { readonly replace?: boolean } = {},
  ): Promise<ModuleInfo & { readonly digest: LayerDigest }> {
    const copy = join(this.#dataDir, 'tmp', `import-${randomBytes(6).toString('hex')}${suffix}`);
    const what = `module "${name}"`;
    try {
      // The copy is what is checked and kept: nobody else writes it.
      await copyFile(hostPath, copy, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
      const { digest, size, writtenAt } = await syncAndHash(copy);
      const module = { name, digest, importedAt: writtenAt, replace: options.replace ?? false };
      // Before a tree is made that nobody would use.
      await this.#checkName(module);
      if (!this.#trees.has(digest)) await this.#unpack(copy, digest, { what }).catch(refuseFile);
      await this.#inTurn(name, () => this.#place(copy, module));
      return { name, size, location: 'local', digest };
    } catch (error) {
      throw readFailure(error, what);
    } finally {
      await rm(copy, { force: true });
    }
  }

  removeModule(name: ModuleName, use: LayerUse): Promise<void> {
    return this.#inTurn(name, async () => {
      const path = this.#modulePath(name);
      const digest = await this.#digestOf(name);
      if (use.modules.some((each) => each.module === name && each.digest === digest)) {
        throw new AppError('module_in_use', `Cannot remove module "${name}": a sandbox is built on it`);
      }
      // The manifest first: a manifest without its module would refuse the next module of this name.
      await removeManifest(path);
      await rm(path);
      await syncDirectory(join(this.#dataDir, 'modules'));
      await this.#digests.forget(indexKey(name));
      if (use.trees.has(digest) || (await this.#moduleDigests()).has(digest)) return;
      await this.#trees.remove(digest);
    });
  }

  async collect(keep: ReadonlySet<LayerDigest>): Promise<number> {
    return this.#trees.collect(new Set([...keep, ...(await this.#moduleDigests())]));
  }

  measureSweep(keep: ReadonlySet<LayerDigest>): Promise<Sweep> {
    return this.#trees.measureSweep(keep);
  }

  sweep(keep: ReadonlySet<LayerDigest>): Promise<() => Promise<Sweep>> {
    return this.#trees.sweep(keep);
  }

  async #moduleDigests(): Promise<ReadonlySet<LayerDigest>> {
    const found = new Set<LayerDigest>();
    for (const { name } of await this.modules()) {
      const digest = await this.#presentDigest(name).catch(() => undefined);
      // A module that can't be read has no tree that could be kept; whoever uses it is told why.
      if (digest !== undefined) found.add(digest);
    }
    return found;
  }

  async #place(copy: string, module: NewModule): Promise<void> {
    await this.#checkName(module);
    const path = this.#modulePath(module.name);
    const present = await readManifest(path, module.name).catch(() => undefined);
    // No manifest, then the file, then its manifest: a crash in between leaves a module that is merely unverified.
    await removeManifest(path);
    await rename(copy, path);
    await syncDirectory(join(this.#dataDir, 'modules'));
    // Of the same file again: what somebody has said of it stays.
    const isKept = present?.squashfs_sha256 === module.digest;
    await writeManifest(path, isKept ? present : manifestOfImport(module));
  }

  /** @throws module_exists */
  async #checkName(module: NewModule): Promise<void> {
    const present = module.replace ? undefined : await this.#presentDigest(module.name);
    if (present === undefined || present === module.digest) return;
    throw new AppError(
      'module_exists',
      `Cannot import module "${module.name}": one with other content exists; replace it on purpose, or take another name`,
    );
  }

  async #presentDigest(name: ModuleName): Promise<LayerDigest | undefined> {
    try {
      return await this.#digests.digestOf(indexKey(name), this.#modulePath(name));
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return undefined;
      throw error;
    }
  }

  /** @throws module_not_found */
  async #digestOf(name: ModuleName): Promise<LayerDigest> {
    const digest = await this.#presentDigest(name).catch((error: unknown) => {
      throw readFailure(error, `module "${name}"`);
    });
    if (digest !== undefined) return digest;
    throw new AppError('module_not_found', `module not found: ${name}`);
  }

  /** What was found when module and manifest were last read, if they are the same files still. */
  #digestAsVerified(name: ModuleName): LayerDigest | undefined {
    const verified = this.#verified.get(name);
    return verified !== undefined && verified.print === this.#printOf(name) ? verified.digest : undefined;
  }

  async #verify(name: ModuleName): Promise<LayerDigest> {
    // Before they are read: what changes meanwhile is read again by the next create.
    const print = this.#printOf(name);
    const digest = await this.#verifiedDigest(name);
    if (print !== undefined) this.#verified.set(name, { print, digest });
    return digest;
  }

  /** At once: each create asks, and another thread would take ten times as long as the look. */
  #printOf(name: ModuleName): string | undefined {
    const path = this.#modulePath(name);
    try {
      return [path, `${path}${manifestSuffix}`]
        .map((each) => statSync(each, { bigint: true, throwIfNoEntry: false }))
        .map((facts) => (facts === undefined ? 'none' : fingerprint(facts)))
        .join(' ');
    } catch {
      // Whoever opens the file says what is wrong with it.
      return undefined;
    }
  }

  /** @throws module_not_found, layer_corrupt when the manifest names another digest */
  async #verifiedDigest(name: ModuleName): Promise<LayerDigest> {
    const digest = await this.#digestOf(name);
    const manifest = await readManifest(this.#modulePath(name), name);
    if (manifest === undefined || manifest.squashfs_sha256 === digest) return digest;
    // An import between the two looks has changed both; what is wrong now is wrong for good.
    const again = await this.#inTurn(name, async () => ({
      digest: await this.#digestOf(name),
      manifest: await readManifest(this.#modulePath(name), name),
    }));
    if (again.manifest === undefined || again.manifest.squashfs_sha256 === again.digest) return again.digest;
    throw differs(`module "${name}"`, again.manifest.squashfs_sha256, again.digest);
  }

  async #unpack(
    path: string,
    digest: LayerDigest,
    { what, giveUp }: { readonly what: string; readonly giveUp?: AbortSignal | undefined },
  ): Promise<void> {
    const before = await checkSuperblock(path, what);
    const copy = join(this.#dataDir, 'tmp', `marks-${randomBytes(6).toString('hex')}${suffix}`);
    try {
      const isTranslated = await translateTrustedMarks(path, copy);
      const image = relative(this.#dataDir, isTranslated ? copy : path);
      await this.#trees.make(digest, {
        image,
        isSameImage: async () => before === fingerprint(await stat(path, { bigint: true })),
        giveUp,
      });
    } finally {
      await rm(copy, { force: true });
    }
  }

  async #inTurn<T>(name: ModuleName, work: () => Promise<T>): Promise<T> {
    const before = this.#changing.get(name) ?? Promise.resolve();
    const turn = before.then(work, work);
    this.#changing.set(name, turn);
    try {
      return await turn;
    } finally {
      if (this.#changing.get(name) === turn) this.#changing.delete(name);
    }
  }

  #modulePath(name: ModuleName): string {
    return join(this.#dataDir, 'modules', `${name}${suffix}`);
  }
}

function indexKey(name: ModuleName): string {
  return `modules/${name}${suffix}`;
}

/** Returns the file's fingerprint. @throws layer_corrupt */
async function checkSuperblock(path: string, what: string): Promise<string> {
  await using file = await openForReading(path);
  const facts = await file.handle.stat({ bigint: true });
  const { buffer, bytesRead } = await file.handle.read(Buffer.alloc(superblockBytes), 0, superblockBytes, 0);
  const fault = superblockFault(buffer.subarray(0, bytesRead), Number(facts.size));
  if (fault !== undefined) throw new AppError('layer_corrupt', `Cannot use ${what}: ${fault}`);
  return fingerprint(facts);
}

async function syncAndHash(
  path: string,
): Promise<{ readonly digest: LayerDigest; readonly size: number; readonly writtenAt: string }> {
  const handle = await open(path, 'r+');
  try {
    await handle.chmod(0o644);
    await handle.sync();
    const { size, mtime } = await handle.stat();
    return {
      digest: layerDigestSchema.parse(await fileDigest(handle)),
      size,
      writtenAt: mtime.toISOString(),
    };
  } finally {
    await handle.close();
  }
}

function differs(what: string, wanted: LayerDigest, actual: LayerDigest): AppError {
  return new AppError(
    'layer_corrupt',
    `Cannot use ${what}: its digest is ${actual.slice(0, 12)}…, it should be ${wanted.slice(0, 12)}…; build or import it again`,
  );
}

/** A layer of ours that can't be unpacked is our fault, a file that somebody hands in is his. */
function refuseFile(error: unknown): never {
  if (!(error instanceof AppError) || error.code !== 'layer_corrupt') throw error;
  throw new AppError('module_invalid', error.message, { cause: error });
}

/** What the file system says while a layer is read or written, in the catalogue's terms. */
function readFailure(error: unknown, what: string): unknown {
  if (error instanceof AppError) return error;
  if (isDiskFull(error)) {
    return new AppError('disk_full', `Cannot store ${what}: the data directory has no room`, {
      cause: error,
    });
  }
  if (isErrno(error, 'EIO', 'EACCES', 'EISDIR')) {
    return new AppError('layer_corrupt', `Cannot read ${what}: ${String(error)}`, { cause: error });
  }
  return error;
}
