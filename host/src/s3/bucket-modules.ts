/**
 * Modules in a bucket, in the original's places: `modules/NAME.squashfs`. Beside it lies the manifest, as in a data
 * directory, and with the object the SHA-256 of the whole file, which the original does not state.
 *
 * What is here and not there is found by comparing when the daemon starts, so that no list of what is still to be
 * pushed has to survive it. Nothing that is there is overwritten by a module of other content unless somebody replaced
 * that on purpose: two machines share the bucket, and neither can know which is right.
 */
import { createHash, randomBytes } from 'node:crypto';
import { open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { errorText } from '@squash/base/bug';
import { isDiskFull } from '@squash/base/errno';
import type { Log } from '@squash/base/log';
import type { Metric } from '@squash/base/metric';
import { pause } from '@squash/base/pause';
import type { Problem } from '@squash/contract/daemon';
import { AppError } from '@squash/contract/errors';
import { type ModuleName, moduleNameSchema } from '@squash/contract/ids';
import { manifestSuffix } from '@squash/contract/manifest-suffix';
import { type ModuleManifest, moduleManifestSchema } from '@squash/contract/module-manifest';
import type { S3Config } from '../config/config.ts';
import type { FetchedModule, LayerStore, ModuleInfo, RemoteModules } from '../layers/layer-store.ts';
import { Bucket } from './bucket.ts';

const folder = 'modules/';
const suffix = '.squashfs';
const modulesMax = 10_000;
const manifestBytesMax = 1_048_576;
/** Who asks for the list after this long has it fetched anew, for the next one. */
const listFreshMs = 15_000;
const firstListMsMax = 5_000;
const retryMsMin = 1_000;
const retryMsMax = 300_000;

export interface BucketModulesOptions {
  readonly s3: S3Config;
  readonly layers: LayerStore;
  /** For what is on its way; what lies there belongs to nobody after a start. */
  readonly tmp: string;
  readonly log: Log;
}

interface Push {
  readonly replace: boolean;
}

export class BucketModules implements RemoteModules, AsyncDisposable {
  readonly #options: BucketModulesOptions;
  readonly #bucket: Bucket;
  readonly #end = new AbortController();
  readonly #fetching = new Map<ModuleName, Promise<void>>();
  readonly #pushes = new Map<ModuleName, Push>();
  readonly #conflicts = new Set<ModuleName>();
  readonly #counts = { pulled: 0, pushed: 0, failed: 0 };
  readonly #working: Promise<void>;
  #wake = Promise.withResolvers<void>();
  #known: readonly ModuleInfo[] = [];
  #listedMs = Number.NEGATIVE_INFINITY;
  #listing: Promise<void> | undefined;
  #failure: string | undefined;
  #isCompared = false;

  constructor(options: BucketModulesOptions) {
    this.#options = options;
    this.#bucket = new Bucket(options.s3);
    this.#working = this.#work();
  }

  known(): readonly ModuleInfo[] {
    return this.#known;
  }

  async list(): Promise<readonly ModuleInfo[]> {
    if (performance.now() - this.#listedMs > listFreshMs) {
      // A failure is told by `problems`; what was known before still is.
      const listing = this.#list().catch((error: unknown) => this.#fail(error));
      if (this.#listedMs < 0 && this.#failure === undefined)
        await Promise.race([listing, pause(firstListMsMax, this.#end.signal)]);
    }
    return this.#known;
  }

  fetch(name: ModuleName, admit: (found: FetchedModule) => Promise<void>): Promise<void> {
    const running = this.#fetching.get(name);
    if (running !== undefined) return running;
    const fetching = this.#fetch(name, admit)
      .catch((error: unknown) => {
        throw this.#told(error, name);
      })
      .finally(() => this.#fetching.delete(name));
    this.#fetching.set(name, fetching);
    return fetching;
  }

  changed(name: ModuleName, { replace = false }: { readonly replace?: boolean } = {}): void {
    this.#conflicts.delete(name);
    this.#pushes.set(name, { replace: replace || this.#pushes.get(name)?.replace === true });
    this.#wake.resolve();
  }

  problems(): readonly Problem[] {
    const problems: Problem[] = [];
    if (this.#failure !== undefined) {
      const text = `the bucket "${this.#options.s3.bucket}" does not do what is asked of it, which is tried again: ${this.#failure}; ${this.#pushes.size} modules wait to be pushed`;
      problems.push({ code: 'bucket_unavailable', message: text });
    }
    if (this.#conflicts.size > 0) {
      const names = [...this.#conflicts].sort().slice(0, 5).join(', ');
      const text = `${this.#conflicts.size} modules are not the same here and in the bucket: ${names}; import the right one with --replace, or under another name`;
      problems.push({ code: 'bucket_conflict', message: text });
    }
    return problems;
  }

  metrics(): readonly Metric[] {
    const metric = (
      name: string,
      [type, help]: readonly [Metric['type'], string],
      value: number,
    ): Metric => ({
      name: `squash_bucket_${name}`,
      help,
      type,
      samples: [{ labels: {}, value }],
    });
    return [
      metric('pending', ['gauge', 'Modules that wait to be pushed'], this.#pushes.size),
      metric('pulled_total', ['counter', 'Modules brought from the bucket'], this.#counts.pulled),
      metric('pushed_total', ['counter', 'Modules brought to the bucket'], this.#counts.pushed),
      metric('failures_total', ['counter', 'Times that the bucket failed'], this.#counts.failed),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort(new AppError('shutting_down', 'Cannot reach the bucket: the daemon stops'));
    this.#wake.resolve();
    await Promise.allSettled([this.#working, this.#listing, ...this.#fetching.values()]);
    this.#bucket[Symbol.dispose]();
  }

  #list(): Promise<void> {
    this.#listing ??= this.#listAll().finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  async #listAll(): Promise<void> {
    const found = new Map<ModuleName, ModuleInfo>();
    const take = ({ key, size }: { readonly key: string; readonly size: number }): boolean => {
      const name = moduleNameSchema.safeParse(key.slice(folder.length, -suffix.length));
      const isModule = key.endsWith(suffix) && name.success && Number.isSafeInteger(size) && size > 0;
      if (isModule) found.set(name.data, { name: name.data, size, location: 'remote' });
      return found.size < modulesMax;
    };
    await this.#bucket.list(folder, take, this.#end.signal);
    this.#known = [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    this.#listedMs = performance.now();
  }

  async #fetch(name: ModuleName, admit: (found: FetchedModule) => Promise<void>): Promise<void> {
    const path = join(this.#options.tmp, `s3-${randomBytes(8).toString('hex')}${suffix}`);
    try {
      for (let isLast = false; ; isLast = true) {
        const digest = await this.#download(name, path);
        if (digest === undefined) return;
        const manifest = await this.#manifest(name);
        const stated = [digest.stated, manifest?.squashfs_sha256].filter((each) => each !== undefined);
        if (stated.every((each) => each === digest.actual)) {
          await admit({ path, manifest });
          this.#counts.pulled += 1;
          this.#options.log.info('bucket.pulled', { module: name });
          return;
        }
        // Once more: a byte may have been turned on the way, or somebody replaced it between the two.
        if (isLast)
          throw corrupt(name, `it is ${digest.actual.slice(0, 12)}…, and should be ${stated.join(', ')}`);
        await rm(path, { force: true });
        await pause(retryMsMin, this.#end.signal);
      }
    } finally {
      await rm(path, { force: true });
    }
  }

  async #download(
    name: ModuleName,
    path: string,
  ): Promise<{ readonly actual: string; readonly stated: string | undefined } | undefined> {
    const file = await open(path, 'wx', 0o600);
    try {
      const checkSize = async (bytes: number): Promise<void> => {
        const { bavail, bsize } = await statfs(this.#options.tmp);
        // The file, and the copy of it that is checked and kept.
        if (bavail * bsize < 2 * bytes) throw noRoom(name);
      };
      const read = await this.#bucket.read(keyOf(name), file, { signal: this.#end.signal, checkSize });
      return read === undefined ? undefined : { actual: read.digest, stated: read.facts.sha256 };
    } finally {
      await file.close();
    }
  }

  async #manifest(name: ModuleName): Promise<ModuleManifest | undefined> {
    const text = await this.#bucket.readSmall(manifestKeyOf(name), manifestBytesMax, this.#end.signal);
    if (text === undefined) return undefined;
    try {
      return moduleManifestSchema.parse(JSON.parse(text.toString('utf8')));
    } catch (cause) {
      throw corrupt(name, `its manifest is malformed (${errorText(cause)})`);
    }
  }

  #told(error: unknown, name: ModuleName): unknown {
    if (error instanceof AppError) {
      // What the layer store says of a file that somebody hands in.
      return error.code === 'module_invalid' ? corrupt(name, error.message) : error;
    }
    if (isDiskFull(error)) return noRoom(name);
    this.#fail(error);
    const text = `Cannot get module "${name}": it is not here, and the bucket "${this.#options.s3.bucket}" fails: ${errorText(error)}`;
    return new AppError('bucket_unavailable', text, { cause: error });
  }

  #fail(error: unknown): void {
    if (this.#end.signal.aborted) return;
    this.#counts.failed += 1;
    this.#failure = errorText(error);
    this.#options.log.warn('bucket.failed', { error });
    // Looks again, though nothing waits to be pushed, and takes the problem back when it is over.
    this.#wake.resolve();
  }

  async #work(): Promise<void> {
    const { signal } = this.#end;
    for (let waitMs = retryMsMin; !signal.aborted; ) {
      this.#wake = Promise.withResolvers<void>();
      try {
        if (!this.#isCompared) await this.#compare();
        await this.#pushAll();
        // A failed pull or list: this one says whether it is over.
        if (this.#failure !== undefined) await this.#list();
        this.#failure = undefined;
        waitMs = retryMsMin;
        await this.#wake.promise;
      } catch (error) {
        this.#fail(error);
        await pause(waitMs, signal);
        waitMs = Math.min(waitMs * 2, retryMsMax);
      }
    }
  }

  /** Each is looked for there when its turn comes: what an earlier daemon did not get to as well as what was put into the directory. */
  async #compare(): Promise<void> {
    for (const { name } of await this.#options.layers.modules())
      if (!this.#pushes.has(name)) this.#pushes.set(name, { replace: false });
    this.#isCompared = true;
  }

  /** All of them are tried: what is too large for the bucket must not keep back the others. */
  async #pushAll(): Promise<void> {
    let failure: unknown;
    for (const [name, push] of this.#pushes) {
      if (this.#end.signal.aborted) return;
      try {
        await this.#push(name, push);
      } catch (error) {
        // Gone meanwhile, or not sound: whoever uses it is told why.
        if (!(error instanceof AppError)) {
          failure = error;
          continue;
        }
      }
      // One that has changed again meanwhile is another push.
      if (this.#pushes.get(name) === push) this.#pushes.delete(name);
    }
    if (failure !== undefined) throw failure;
  }

  async #push(name: ModuleName, { replace }: Push): Promise<void> {
    const { layers, log } = this.#options;
    const { digest, manifest, size } = await layers.describe(name);
    const { signal } = this.#end;
    const there = await this.#bucket.look(keyOf(name), signal);
    // Of what the original wrote nothing but the size is known.
    const isSame = there?.size === size && (there.sha256 ?? digest) === digest;
    if (there !== undefined && !isSame && !replace) {
      this.#conflicts.add(name);
      log.warn('bucket.conflict', { module: name });
      return;
    }
    if (!isSame) {
      const file = await layers.open(name);
      try {
        await this.#bucket.write(keyOf(name), { file, sha256: digest }, signal);
      } finally {
        await file.close();
      }
      this.#counts.pushed += 1;
      log.info('bucket.pushed', { module: name, bytes: size });
    }
    // It would state a digest for an object whose own nobody knows.
    const isStated = !isSame || there?.sha256 !== undefined;
    if (manifest !== undefined && isStated) await this.#pushManifest(name, manifest);
  }

  async #pushManifest(name: ModuleName, manifest: ModuleManifest): Promise<void> {
    const data = Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`);
    const there = await this.#bucket.look(manifestKeyOf(name), this.#end.signal);
    if (there?.sha256 === createHash('sha256').update(data).digest('hex')) return;
    await this.#bucket.writeSmall(manifestKeyOf(name), data, this.#end.signal);
  }
}

function keyOf(name: ModuleName): string {
  return `${folder}${name}${suffix}`;
}

function manifestKeyOf(name: ModuleName): string {
  return `${keyOf(name)}${manifestSuffix}`;
}

function corrupt(name: ModuleName, why: string): AppError {
  return new AppError('layer_corrupt', `Cannot use module "${name}" of the bucket: ${why}`);
}

function noRoom(name: ModuleName): AppError {
  const text = `Cannot get module "${name}" from the bucket: the data directory has no room for it`;
  return new AppError('disk_full', text);
}
