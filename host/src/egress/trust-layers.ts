/**
 * The trust layer: one more tree on top of a sandbox's layers, holding the bundle of certificates it would trust
 * anyway with the installation's authority added. A tree of its own, so that neither the upper nor a snapshot holds it.
 *
 * The trees below are hostile: they are read by `base/src/open-below.ts` alone. The tree is named by its content like
 * every layer, so stacks with the same bundle share one.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { chmod, lchown, lstat, mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type LayerDigest, layerDigestSchema } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { fileBelow } from '@squash/base/open-below';
import { javaTrustStore, systemBundlePaths, trustBundle } from './trust-store.ts';
import { syncDirectory } from '@squash/base/atomic-file';
import { trustPaths } from './trust-environment.ts';

export interface TrustLayersOptions {
  readonly dataDir: string;
  /** PEM of the installation's authority. */
  readonly authority: string;
  readonly removeTree: (path: string) => Promise<void>;
}

/** Written into the Java store's entries: the same bundle gives the same tree on every day. */
const javaEntryMs = 0;

interface Owner {
  readonly uid: number;
  readonly gid: number;
}

export class TrustLayers {
  readonly #options: TrustLayersOptions;
  /** By the stack's digests. Making one takes some milliseconds; whoever asks meanwhile waits for the same. */
  readonly #known = new Map<string, Promise<LayerDigest>>();

  constructor(options: TrustLayersOptions) {
    this.#options = options;
  }

  /** The tree for these trees, topmost first; it is there when this resolves. @throws what the file system says */
  async ensure(lowers: readonly LayerDigest[]): Promise<LayerDigest> {
    const key = lowers.join(' ');
    for (let known = this.#known.get(key); known !== undefined; known = this.#known.get(key)) {
      const digest = await known.catch(() => undefined);
      if (digest !== undefined && isThere(this.#path(digest))) return digest;
      // It was collected since, while no sandbox lay on it. The first who sees it makes another, for all who do.
      if (this.#known.get(key) === known) this.#known.delete(key);
    }
    if (this.#known.size >= limits.trustStacksMax) this.#known.clear();
    const making = this.#make(lowers);
    this.#known.set(key, making);
    return making;
  }

  async #make(lowers: readonly LayerDigest[]): Promise<LayerDigest> {
    const roots = lowers.map((digest) => this.#path(digest));
    const text = roots.length === 0 ? hostBundle() : topmostBundle(roots);
    const bundle = trustBundle(text, this.#options.authority);
    const owner = await ownerOf(roots);
    const digest = layerDigestSchema.parse(
      createHash('sha256')
        // The owner is part of what the tree is: a range of ids that moved needs another one.
        .update(`squash trust layer 1\n${owner.uid}:${owner.gid}\n${this.#options.authority}\n`)
        .update(bundle)
        .digest('hex'),
    );
    if (isThere(this.#path(digest))) return digest;
    await this.#build(digest, bundle, owner);
    return digest;
  }

  async #build(digest: LayerDigest, bundle: string, owner: Owner): Promise<void> {
    const name = join('tmp', `trust-${randomBytes(6).toString('hex')}`);
    const root = join(this.#options.dataDir, name);
    try {
      await makeDirectory(root, owner);
      const files: readonly (readonly [string, string | Buffer])[] = [
        [trustPaths.bundle, bundle],
        [trustPaths.authority, this.#options.authority],
        [trustPaths.java, javaTrustStore(bundle, javaEntryMs)],
      ];
      for (const [path, content] of files) await putFile(root, path, { content, owner });
      await rename(root, this.#path(digest));
    } catch (error) {
      await this.#options.removeTree(name);
      // Made by somebody else at the same time: it has the same content.
      if (isThere(this.#path(digest))) return;
      throw error;
    }
    await syncDirectory(join(this.#options.dataDir, 'layers'));
  }

  #path(digest: LayerDigest): string {
    return join(this.#options.dataDir, 'layers', digest);
  }
}

async function putFile(
  root: string,
  path: string,
  { content, owner }: { readonly content: string | Buffer; readonly owner: Owner },
): Promise<void> {
  const parents: string[] = [];
  for (let at = dirname(path); at !== '/'; at = dirname(at)) parents.unshift(at);
  for (const parent of parents) await makeDirectory(join(root, parent), owner);
  const target = join(root, path);
  await writeFile(target, content, { flag: 'wx' });
  await lchown(target, owner.uid, owner.gid);
  await chmod(target, 0o644);
}

/** Its mode and owner show in the sandbox as those of the directory of this name. */
async function makeDirectory(path: string, owner: Owner): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    throw error;
  }
  await lchown(path, owner.uid, owner.gid);
  await chmod(path, 0o755);
}

/** The sandbox's root, as the daemon sees it: the owner of the lowest tree, which holds the system. */
async function ownerOf(roots: readonly string[]): Promise<Owner> {
  const lowest = roots.at(-1);
  if (lowest === undefined) return { uid: process.geteuid?.() ?? 0, gid: process.getegid?.() ?? 0 };
  const { uid, gid } = await lstat(lowest);
  return { uid, gid };
}

/** The text of the first bundle from above; empty where there is none that is a plain file. */
function topmostBundle(roots: readonly string[]): string {
  for (const root of roots) {
    for (const path of systemBundlePaths) {
      const text = readBelow(root, path);
      if (text !== undefined) return text;
    }
  }
  return '';
}

/** Without layers the root is this machine's: what it trusts. Its files are nobody's who is kept out, and may be links. */
function hostBundle(): string {
  for (const path of systemBundlePaths) {
    try {
      return readFileSync(`/${path}`, 'utf8');
    } catch {
      // Another distribution has it elsewhere; where there is none Node's own list stands in.
    }
  }
  return '';
}

/** Reads a regular file of a bounded size. */
function readBelow(root: string, path: string): string | undefined {
  return fileBelow(root, path, (fd, bytes) =>
    bytes > limits.trustBundleBytesMax ? undefined : readFileSync(fd, 'utf8'),
  );
}

/** At once: each create asks. */
function isThere(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    // Collected, or not made yet.
    return false;
  }
}
