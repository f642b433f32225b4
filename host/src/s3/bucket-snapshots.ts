/**
 * Snapshots in a bucket: brought there behind the answer, and brought back where a restore needs one that is not here.
 *
 * A snapshot is whole there, or lies on pieces, which are found by their digests (`snapshot-pieces.ts`). What a newcomer would get wrong: two machines may have
 * sandboxes of one id. A folder belongs to the owner who is named in its manifest, and an object is overwritten by the
 * installation that wrote it and by no other.
 */
import { createHash } from 'node:crypto';
import { errorText } from '@squash/base/bug';
import { Failure } from '@squash/base/failure';
import { fileDigest } from '@squash/base/file-digest';
import type { Log } from '@squash/base/log';
import type { Metric } from '@squash/base/metric';
import { pause } from '@squash/base/pause';
import type { Problem } from '@squash/contract/daemon';
import { AppError } from '@squash/contract/errors';
import { type SandboxId, type SnapshotLabel, snapshotLabelSchema } from '@squash/contract/ids';
import type { z } from 'zod';
import type {
  FetchedPiece,
  FetchedSnapshot,
  LocalSnapshot,
  PushWish,
  RemoteOwner,
  RemoteSnapshot,
  RemoteSnapshots,
  SnapshotName,
  SnapshotSource,
} from '../sandbox/remote-snapshots.ts';
import type { Bucket, ObjectFacts } from './bucket.ts';
import { corrupt, fetchFile } from './fetch-file.ts';
import { PushQueue } from './push-queue.ts';
import {
  automaticMax,
  changeFolderOf,
  changeKeyOf,
  factsKeyOf,
  factsOf,
  foldersOf,
  keysOf,
  manifestWith,
  pieceKeyOf,
  type SandboxManifest,
  type SnapshotFacts,
  sandboxKeyOf,
  sandboxManifestSchema,
  snapshotFactsSchema,
  suffix,
  whatOf,
} from './snapshot-objects.ts';
import { isShared, pushPieces, withPieces } from './snapshot-pieces.ts';

const jsonBytesMax = 1_048_576;
const jsonAgainMs = 250;
const listMsMax = 2_000;
const listMax = 1_000;
/** Of a folder whose manifest names nobody, as the original calls who is nobody. */
const nobody = 'anon';

export interface BucketSnapshotsOptions {
  readonly bucket: Bucket;
  readonly name: string;
  /** Of this installation, so that what it has written there is known again. */
  readonly origin: string;
  readonly tmp: string;
  readonly log: Log;
}

export class BucketSnapshots implements RemoteSnapshots, AsyncDisposable {
  readonly #options: BucketSnapshotsOptions;
  readonly #bucket: Bucket;
  readonly #queue: PushQueue<SnapshotName>;
  readonly #begun = Promise.withResolvers<SnapshotSource>();
  readonly #fetching = new Map<string, Promise<boolean>>();
  readonly #pushing = new Map<string, Promise<void>>();
  readonly #conflicts = new Set<string>();
  readonly #counts = { pulled: 0, pushed: 0 };
  #late: Promise<unknown> | undefined;

  constructor(options: BucketSnapshotsOptions) {
    this.#options = options;
    this.#bucket = options.bucket;
    const work = {
      compare: () => this.#compare(),
      push: (name: SnapshotName) => this.#inTurn(name, {}),
      probe: () => this.#bucket.look('sandboxes/', this.#queue.signal),
      log: options.log,
    };
    this.#queue = new PushQueue(work, this.#begun.promise);
  }

  begin(source: SnapshotSource): void {
    this.#begun.resolve(source);
  }

  async list(of: RemoteOwner): Promise<readonly RemoteSnapshot[]> {
    // One that waits in vain is enough: what is here is told without.
    if (this.#queue.failure !== undefined || this.#late !== undefined) return [];
    const listing = this.#list(of).catch((error: unknown): readonly RemoteSnapshot[] => {
      if (!(error instanceof AppError)) this.#queue.fail(error);
      return [];
    });
    const found = await Promise.race([listing, pause(listMsMax, this.#queue.signal)]);
    if (found !== undefined) return found;
    const late = listing.finally(() => {
      if (this.#late === late) this.#late = undefined;
    });
    this.#late = late;
    return [];
  }

  fetch(of: RemoteOwner & SnapshotName, admit: (found: FetchedSnapshot) => Promise<void>): Promise<boolean> {
    const key = JSON.stringify([of.id, of.label, of.owner]);
    const running = this.#fetching.get(key);
    if (running !== undefined) return running;
    const fetching = this.#told(whatOf(of), () => this.#fetch(of, admit)).finally(() =>
      this.#fetching.delete(key),
    );
    this.#fetching.set(key, fetching);
    return fetching;
  }

  latest(of: RemoteOwner): Promise<SnapshotLabel | undefined> {
    return this.#told(`what the bucket has of sandbox "${of.id}"`, () => this.#latest(of));
  }

  changed(name: SnapshotName): void {
    const key = keysOf(name)[0];
    this.#conflicts.delete(key);
    this.#queue.add(key, name);
  }

  push(name: SnapshotName, wish: PushWish): Promise<void> {
    return this.#told(whatOf(name), async () => {
      const key = keysOf(name)[0];
      const waiting = this.#queue.get(key);
      await this.#inTurn(name, wish);
      if (waiting !== undefined) this.#queue.done(key, waiting);
      if (!this.#conflicts.has(key)) return;
      throw new AppError(
        'bucket_conflict',
        `Cannot push ${whatOf(name)}: the bucket has another one under this label`,
      );
    });
  }

  async flush(id: SandboxId): Promise<void> {
    for (const name of this.#queue.items()) {
      if (name.id !== id) continue;
      try {
        await this.push(name, {});
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
    const { failure, size } = this.#queue;
    if (failure !== undefined) {
      const text = `the bucket "${this.#options.name}" does not do what is asked of it, which is tried again: ${failure}; snapshots that wait to be pushed: ${size}`;
      problems.push({ code: 'bucket_unavailable', message: text });
    }
    if (this.#conflicts.size > 0) {
      const keys = [...this.#conflicts].sort().slice(0, 5).join(', ');
      const text = `${this.#conflicts.size} snapshots are not the same here and in the bucket, or of another owner there: ${keys}; give them another label, or push them with --replace`;
      problems.push({ code: 'bucket_conflict', message: text });
    }
    return problems;
  }

  metrics(): readonly Metric[] {
    const { size, failures } = this.#queue;
    const rows = [
      ['pending', 'gauge', 'Snapshots that wait to be pushed', size],
      ['pulled_total', 'counter', 'Snapshots brought from the bucket', this.#counts.pulled],
      ['pushed_total', 'counter', 'Snapshots brought to the bucket', this.#counts.pushed],
      ['failures_total', 'counter', 'Times that the bucket failed a snapshot', failures],
    ] as const;
    return rows.map(([name, type, help, value]) => ({
      name: `squash_bucket_snapshots_${name}`,
      help,
      type,
      samples: [{ labels: {}, value }],
    }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#queue[Symbol.asyncDispose]();
    await Promise.allSettled([this.#late, ...this.#fetching.values(), ...this.#pushing.values()]);
  }

  async #told<T>(what: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof AppError) throw error;
      // Of what is here: the bucket has not failed.
      if (error instanceof LateFailure) throw error.cause;
      this.#queue.fail(error);
      const text = `Cannot reach ${what}: the bucket "${this.#options.name}" fails: ${errorText(error)}`;
      throw new AppError('bucket_unavailable', text, { cause: error });
    }
  }

  async #compare(): Promise<void> {
    const source = await this.#begun.promise;
    for (const name of source.all()) {
      const key = keysOf(name)[0];
      if (this.#queue.get(key) === undefined) this.#queue.add(key, name);
    }
  }

  /** Of one sandbox one at a time: they write one manifest. */
  async #inTurn(name: SnapshotName, wish: PushWish): Promise<void> {
    const before = this.#pushing.get(name.id) ?? Promise.resolve();
    const push = (): Promise<void> => this.#push(name, wish);
    const turn = before.then(push, push);
    this.#pushing.set(name.id, turn);
    try {
      await turn;
    } finally {
      if (this.#pushing.get(name.id) === turn) this.#pushing.delete(name.id);
    }
  }

  async #push(name: SnapshotName, { replace = false }: PushWish): Promise<void> {
    const source = await this.#begun.promise;
    const local = await source.describe(name).catch(lateFailure);
    const shares = isShared(local);
    const keys = [keysOf(name)[0], changeKeyOf(name)] as const;
    const [key, other] = shares ? ([keys[1], keys[0]] as const) : keys;
    const { signal } = this.#queue;
    // The bucket's fault, not the snapshot's: it is told and tried again, and nobody takes what is here for lost.
    const manifest = await this.#manifest(name).catch((error: unknown) => {
      throw error instanceof AppError ? new Failure('bucket_answer', error.message, { cause: error }) : error;
    });
    const there = await this.#bucket.look(key, signal);
    const before = await this.#bucket.look(other, signal);
    const isSame = there !== undefined && isSameContent(there, local);
    const isOthers = !(await this.#isFolderOf(local.sandbox, manifest));
    const isForeign = !isSame && [there, before].some((each) => this.#isForeign(each));
    if (isOthers || (isForeign && !replace)) {
      this.#conflicts.add(keys[0]);
      this.#options.log.warn('bucket.conflict', { sandbox: name.id, snapshot: name.label });
      return;
    }
    this.#conflicts.delete(keys[0]);
    if (shares) {
      const place = { bucket: this.#bucket, origin: this.#options.origin, signal };
      await pushPieces(place, local, source).catch(lateFailure);
    }
    const sha256 = isSame ? there.sha256 : await this.#pushFile(key, { name, local, source });
    if (sha256 !== undefined) await this.#pushJson(factsKeyOf(name), factsOf(local, sha256, shares));
    // Under one label one snapshot, in whatever form it was there before.
    if (before !== undefined && (replace || !this.#isForeign(before)))
      await this.#bucket.remove(other, signal);
    const next = manifestWith(manifest, local);
    // Named first and removed behind it: what the manifest names is there.
    // But for this one, wherever its label is sorted: whoever is told that it is there may remove what is here.
    const old = (next.automatic ?? []).slice(0, -automaticMax).filter((each) => each !== name.label);
    await this.#pushJson(sandboxKeyOf(name.id), { ...next, automatic: next.automatic?.slice(-automaticMax) });
    for (const each of old) await this.#drop(name, each);
  }

  async #pushFile(
    key: string,
    {
      name,
      local,
      source,
    }: { readonly name: SnapshotName; readonly local: LocalSnapshot; readonly source: SnapshotSource },
  ): Promise<string> {
    const opening = isShared(local) ? source.openOwn(name) : source.open(name);
    const file = await opening.catch(lateFailure);
    try {
      const sha256 = await fileDigest(file);
      const marks = { content: local.content, origin: this.#options.origin };
      await this.#bucket.write(key, { file, sha256, marks }, this.#queue.signal);
      this.#counts.pushed += 1;
      this.#options.log.info('bucket.pushed', { sandbox: name.id, snapshot: name.label });
      return sha256;
    } finally {
      await file.close();
    }
  }

  #isForeign(there: ObjectFacts | undefined): boolean {
    return there !== undefined && there.marks['origin'] !== this.#options.origin;
  }

  async #pushJson(key: string, value: unknown): Promise<void> {
    const data = Buffer.from(`${JSON.stringify(value, null, 2)}\n`);
    const there = await this.#bucket.look(key, this.#queue.signal);
    if (there?.sha256 === createHash('sha256').update(data).digest('hex')) return;
    await this.#bucket.writeSmall(key, data, this.#queue.signal);
  }

  /** An automatic one that newer ones have made needless. */
  async #drop({ id }: SnapshotName, label: string): Promise<void> {
    const old = snapshotLabelSchema.safeParse(label);
    if (!old.success) return;
    const { signal } = this.#queue;
    const name = { id, label: old.data };
    await this.#bucket.remove(keysOf(name)[0], signal);
    await this.#bucket.remove(factsKeyOf(name), signal);
  }

  async #fetch(
    of: RemoteOwner & SnapshotName,
    admit: (found: FetchedSnapshot) => Promise<void>,
  ): Promise<boolean> {
    const { tmp, log } = this.#options;
    const { signal } = this.#queue;
    if (!(await this.#isHis(of))) return false;
    const about = { bucket: this.#bucket, tmp, what: whatOf(of), signal };
    const admitted = (path: string, below: readonly FetchedPiece[], found?: SnapshotFacts): Promise<void> =>
      admit({
        path,
        below,
        layers: found?.layers,
        createdMs: found === undefined ? undefined : Date.parse(found.created_at),
        labels: found?.labels ?? {},
        image: found?.image,
        backend: found?.backend,
      });
    const facts = async () => {
      const found = await this.#json(factsKeyOf(of), snapshotFactsSchema, whatOf(of));
      return { sha256: found?.squashfs_sha256, facts: found };
    };
    const use = (path: string, found: SnapshotFacts | undefined): Promise<void> => admitted(path, [], found);
    const pieces = { ...about, keyOf: (digest: string) => pieceKeyOf(of.id, digest) };
    const useChange = async (path: string, found: SnapshotFacts | undefined): Promise<void> => {
      if (found?.below === undefined) throw corrupt(about.what, 'nothing says what it lies on');
      await withPieces(pieces, found.below, (below) => admitted(path, below, found));
    };
    const none = async () => ({ sha256: undefined, facts: undefined });
    const [own, later] = keysOf(of);
    const isFound =
      (await fetchFile({ ...about, key: own, facts }, use)) ||
      (await fetchFile({ ...about, key: changeKeyOf(of), facts }, useChange)) ||
      (await fetchFile({ ...about, key: later, facts: none }, use));
    if (!isFound) return false;
    this.#counts.pulled += 1;
    log.info('bucket.pulled', { sandbox: of.id, snapshot: of.label });
    return true;
  }

  async #latest(of: RemoteOwner): Promise<SnapshotLabel | undefined> {
    const manifest = await this.#manifest(of);
    const found = await this.#listAll(of);
    if (found.length === 0) return undefined;
    if ((manifest?.owner ?? nobody) !== of.owner) {
      throw new AppError(
        'sandbox_exists',
        `Cannot create sandbox "${of.id}": the bucket has files of another owner's sandbox of this id; take another one`,
      );
    }
    const named = found.find(({ label }) => label === manifest?.latest_snapshot);
    return (named ?? found.at(-1))?.label;
  }

  async #list(of: RemoteOwner): Promise<readonly RemoteSnapshot[]> {
    return (await this.#isHis(of)) ? await this.#listAll(of) : [];
  }

  async #listAll({ id }: RemoteOwner): Promise<readonly RemoteSnapshot[]> {
    const found = new Map<SnapshotLabel, RemoteSnapshot>();
    const [own, later] = foldersOf(id);
    const changes = changeFolderOf(id);
    for (const folder of [own, changes, later]) {
      await this.#bucket.list(
        folder,
        ({ key, size, modifiedMs: createdMs }) => {
          const label = snapshotLabelSchema.safeParse(key.slice(folder.length, -suffix.length));
          if (!key.endsWith(suffix) || !label.success || !(size > 0)) return true;
          const isWhole = folder !== changes;
          if (!found.has(label.data)) found.set(label.data, { label: label.data, isWhole, size, createdMs });
          return found.size < listMax;
        },
        this.#queue,
      );
    }
    return [...found.values()].sort((a, b) => (a.label < b.label ? -1 : 1));
  }

  async #isHis(of: RemoteOwner): Promise<boolean> {
    return ((await this.#manifest(of))?.owner ?? nobody) === of.owner;
  }

  /** One that nobody has named is his who comes first, unless files of nobody known are there. */
  async #isFolderOf(of: RemoteOwner, manifest: SandboxManifest | undefined): Promise<boolean> {
    if (manifest !== undefined) return (manifest.owner ?? nobody) === of.owner;
    return of.owner === nobody || (await this.#listAll(of)).length === 0;
  }

  #manifest({ id }: Pick<RemoteOwner, 'id'>): Promise<SandboxManifest | undefined> {
    return this.#json(sandboxKeyOf(id), sandboxManifestSchema, `sandbox "${id}"`);
  }

  async #json<T>(key: string, schema: z.ZodType<T>, what: string): Promise<T | undefined> {
    const { signal } = this.#queue;
    for (let triesLeft = 2; ; triesLeft -= 1) {
      const text = await this.#bucket.readSmall(key, jsonBytesMax, signal);
      if (text === undefined) return undefined;
      try {
        return schema.parse(JSON.parse(text.toString('utf8')));
      } catch (cause) {
        // Small services show an object while it is being written.
        if (triesLeft === 0 || signal.aborted)
          throw corrupt(what, `its manifest is malformed (${errorText(cause)})`);
        await pause(jsonAgainMs, signal);
      }
    }
  }
}

/** What goes wrong here and may be over in a moment. */
class LateFailure extends Failure {
  constructor(cause: AppError) {
    super(cause.code, cause.message, { cause });
  }
}

/** What is over in a moment is no reason to give it up. */
function lateFailure(error: unknown): never {
  const isLater =
    error instanceof AppError && error.code !== 'layer_corrupt' && !/not_found/.test(error.code);
  throw isLater ? new LateFailure(error) : error;
}

/** Of what the original wrote nothing but the size is known. */
function isSameContent(there: ObjectFacts, { content, isWhole, snapshot }: LocalSnapshot): boolean {
  if (there.marks['content'] === content) return true;
  if (!isWhole) return false;
  return there.sha256 === undefined ? there.size === snapshot.size : there.sha256 === content;
}
