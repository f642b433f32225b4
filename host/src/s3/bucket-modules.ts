/**
 * Modules in a bucket, in the original's places: `modules/NAME.squashfs`. Beside it lies the manifest, as in a data
 * directory, and with the object the SHA-256 of the whole file, which the original does not state.
 *
 * What is here and not there is found by comparing when the daemon starts, so that no list of what is still to be
 * pushed has to survive it. Nothing that is there is overwritten by a module of other content unless somebody replaced
 * that on purpose: two machines share the bucket, and neither can know which is right.
 */
import { createHash } from 'node:crypto';
import { errorText } from '@squash/base/bug';
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
import type { Bucket } from './bucket.ts';
import { corrupt, fetchFile } from './fetch-file.ts';
import { PushQueue } from './push-queue.ts';

const folder = 'modules/';
const suffix = '.squashfs';
const modulesMax = 10_000;
const manifestBytesMax = 1_048_576;
/** Who asks for the list after this long has it fetched anew, for the next one. */
const listFreshMs = 15_000;
const firstListMsMax = 5_000;

export interface BucketModulesOptions {
  readonly bucket: Bucket;
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
  readonly #queue: PushQueue<{ readonly name: ModuleName } & Push>;
  readonly #pushing = new Map<ModuleName, Promise<void>>();
  readonly #fetching = new Map<ModuleName, Promise<void>>();
  readonly #conflicts = new Set<ModuleName>();
  readonly #counts = { pulled: 0, pushed: 0 };
  #known: readonly ModuleInfo[] = [];
  #listedMs = Number.NEGATIVE_INFINITY;
  #listing: Promise<void> | undefined;

  constructor(options: BucketModulesOptions) {
    this.#options = options;
    this.#bucket = options.bucket;
    this.#queue = new PushQueue(
      {
        compare: () => this.#compare(),
        push: (item) => this.#inTurn(item.name, item),
        probe: () => this.#list(),
        log: options.log,
      },
      Promise.resolve(),
    );
  }

  known(): readonly ModuleInfo[] {
    return this.#known;
  }

  async list(): Promise<readonly ModuleInfo[]> {
    if (performance.now() - this.#listedMs > listFreshMs) {
      // A failure is told by `problems`; what was known before still is.
      const listing = this.#list().catch((error: unknown) => this.#queue.fail(error));
      if (this.#listedMs < 0 && this.#queue.failure === undefined)
        await Promise.race([listing, pause(firstListMsMax, this.#queue.signal)]);
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
    this.#queue.add(name, { name, replace: replace || this.#queue.get(name)?.replace === true });
  }

  async push(name: ModuleName, push: Push): Promise<void> {
    const waiting = this.#queue.get(name);
    this.#conflicts.delete(name);
    try {
      await this.#inTurn(name, push);
    } catch (error) {
      if (error instanceof AppError) throw error;
      this.#queue.fail(error);
      const text = `Cannot push module "${name}": the bucket "${this.#options.s3.bucket}" fails: ${errorText(error)}`;
      throw new AppError('bucket_unavailable', text, { cause: error });
    }
    if (waiting !== undefined) this.#queue.done(name, waiting);
    if (!this.#conflicts.has(name)) return;
    throw new AppError(
      'bucket_conflict',
      `Cannot push module "${name}": the bucket has another one of this name`,
    );
  }

  async flush(names: readonly ModuleName[]): Promise<void> {
    for (const name of names) {
      const waiting = this.#queue.get(name);
      if (waiting === undefined) continue;
      try {
        await this.push(name, waiting);
      } catch (error) {
        // One that is gone, or that has no place there, is told elsewhere; all else keeps it here alone.
        if (!(error instanceof AppError) || !/not_found|conflict|corrupt/.test(error.code)) throw error;
      }
    }
  }

  get pending(): number {
    return this.#queue.size;
  }

  problems(): readonly Problem[] {
    const problems: Problem[] = [];
    if (this.#queue.failure !== undefined) {
      const text = `the bucket "${this.#options.s3.bucket}" does not do what is asked of it, which is tried again: ${this.#queue.failure}; modules that wait to be pushed: ${this.#queue.size}`;
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
      metric('pending', ['gauge', 'Modules that wait to be pushed'], this.#queue.size),
      metric('pulled_total', ['counter', 'Modules brought from the bucket'], this.#counts.pulled),
      metric('pushed_total', ['counter', 'Modules brought to the bucket'], this.#counts.pushed),
      metric('failures_total', ['counter', 'Times that the bucket failed'], this.#queue.failures),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue[Symbol.asyncDispose]();
    await Promise.allSettled([this.#listing, ...this.#fetching.values(), ...this.#pushing.values()]);
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
    await this.#bucket.list(folder, take, this.#queue);
    this.#known = [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    this.#listedMs = performance.now();
  }

  async #fetch(name: ModuleName, admit: (found: FetchedModule) => Promise<void>): Promise<void> {
    const { tmp, log } = this.#options;
    const { signal } = this.#queue;
    const about = { bucket: this.#bucket, tmp, key: keyOf(name), what: whatOf(name), signal };
    const facts = async () => {
      const manifest = await this.#manifest(name);
      return { sha256: manifest?.squashfs_sha256, facts: manifest };
    };
    const isThere = await fetchFile({ ...about, facts }, (path, manifest) => admit({ path, manifest }));
    if (!isThere) return;
    this.#counts.pulled += 1;
    log.info('bucket.pulled', { module: name });
  }

  async #manifest(name: ModuleName): Promise<ModuleManifest | undefined> {
    const text = await this.#bucket.readSmall(manifestKeyOf(name), manifestBytesMax, this.#queue.signal);
    if (text === undefined) return undefined;
    try {
      return moduleManifestSchema.parse(JSON.parse(text.toString('utf8')));
    } catch (cause) {
      throw corrupt(whatOf(name), `its manifest is malformed (${errorText(cause)})`);
    }
  }

  #told(error: unknown, name: ModuleName): unknown {
    if (error instanceof AppError) {
      // What the layer store says of a file that somebody hands in.
      return error.code === 'module_invalid' ? corrupt(whatOf(name), error.message) : error;
    }
    this.#queue.fail(error);
    const text = `Cannot get module "${name}": it is not here, and the bucket "${this.#options.s3.bucket}" fails: ${errorText(error)}`;
    return new AppError('bucket_unavailable', text, { cause: error });
  }

  /** Each is looked for there when its turn comes: what an earlier daemon did not get to as well as what was put into the directory. */
  async #compare(): Promise<void> {
    for (const { name } of await this.#options.layers.modules())
      if (this.#queue.get(name) === undefined) this.#queue.add(name, { name, replace: false });
  }

  /** Whoever asks while it is on its way finds it there. */
  async #inTurn(name: ModuleName, wish: Push): Promise<void> {
    const before = this.#pushing.get(name) ?? Promise.resolve();
    const push = (): Promise<void> => this.#push(name, wish);
    const turn = before.then(push, push);
    this.#pushing.set(name, turn);
    try {
      await turn;
    } finally {
      if (this.#pushing.get(name) === turn) this.#pushing.delete(name);
    }
  }

  async #push(name: ModuleName, { replace }: Push): Promise<void> {
    const { layers, log } = this.#options;
    const { digest, manifest, size } = await layers.describe(name);
    const { signal } = this.#queue;
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
    const there = await this.#bucket.look(manifestKeyOf(name), this.#queue.signal);
    if (there?.sha256 === createHash('sha256').update(data).digest('hex')) return;
    await this.#bucket.writeSmall(manifestKeyOf(name), data, this.#queue.signal);
  }
}

function keyOf(name: ModuleName): string {
  return `${folder}${name}${suffix}`;
}

function manifestKeyOf(name: ModuleName): string {
  return `${keyOf(name)}${manifestSuffix}`;
}

function whatOf(name: ModuleName): string {
  return `module "${name}"`;
}
