/**
 * Digests of files, remembered as long as the file has not changed: hashing a gigabyte takes seconds, and every
 * create asks.
 *
 * A file counts as unchanged when size, inode and both times are the same to the nanosecond. Who can write
 * `modules/` is the operator; whoever sets times back on purpose only deceives himself. `layers/index.json` is a
 * cache: where it is missing or broken, files are hashed again.
 */
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { z } from 'zod';
import { AppError } from '@squash/contract/errors';
import { type LayerDigest, layerDigestSchema } from '@squash/contract/ids';
import { writeFileAtomic } from '@squash/base/atomic-file';
import { fileDigest, fingerprint } from '@squash/base/file-digest';

const indexSchema = z.strictObject({
  version: z.literal(1),
  files: z.record(z.string(), z.strictObject({ fingerprint: z.string(), digest: layerDigestSchema })),
});
type Entry = z.infer<typeof indexSchema>['files'][string];

/** Snapshots count, too: beyond this the oldest entries go, and such a file is hashed once more. */
const entriesMax = 20_000;
/** A file that changes while it is read is tried again this often. */
const attemptsMax = 3;

export class DigestIndex {
  readonly #path: string;
  #entries: Promise<Map<string, Entry>> | undefined;
  readonly #hashing = new Map<string, Promise<Entry>>();
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
  }

  /** `key` names the file in the index. @throws layer_corrupt when it changes all the time; ENOENT and the like */
  async digestOf(key: string, path: string): Promise<LayerDigest> {
    await using file = await openForReading(path);
    const print = fingerprint(await file.handle.stat({ bigint: true }));
    const entries = await this.#load();
    const entry = entries.get(key);
    if (entry?.fingerprint === print) return entry.digest;
    // Whoever asks for the same bytes meanwhile waits for the same reading.
    const same = `${key}\0${print}`;
    const running = this.#hashing.get(same);
    if (running !== undefined) return (await running).digest;
    const hashing = hashStable(path).finally(() => this.#hashing.delete(same));
    this.#hashing.set(same, hashing);
    const found = await hashing;
    entries.delete(key);
    entries.set(key, found);
    for (const oldest of entries.keys()) {
      if (entries.size <= entriesMax) break;
      entries.delete(oldest);
    }
    await this.#save(entries);
    return found.digest;
  }

  async forget(key: string): Promise<void> {
    const entries = await this.#load();
    if (entries.delete(key)) await this.#save(entries);
  }

  #load(): Promise<Map<string, Entry>> {
    this.#entries ??= readIndex(this.#path);
    return this.#entries;
  }

  /** One write after the other; each writes what is there when its turn comes. */
  #save(entries: ReadonlyMap<string, Entry>): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      try {
        const files = Object.fromEntries(entries);
        await writeFileAtomic(this.#path, `${JSON.stringify({ version: 1, files })}\n`);
      } catch {
        // A cache that can't be written costs a hash after the next start, and a full disk is told by who needs room.
      }
    });
    return this.#writing;
  }
}

async function readIndex(path: string): Promise<Map<string, Entry>> {
  try {
    return new Map(Object.entries(indexSchema.parse(JSON.parse(await readFile(path, 'utf8'))).files));
  } catch {
    // No index yet, or one of another version: every file is hashed once.
    return new Map();
  }
}

async function hashStable(path: string): Promise<Entry> {
  for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
    await using file = await openForReading(path);
    const before = fingerprint(await file.handle.stat({ bigint: true }));
    const digest = layerDigestSchema.parse(await fileDigest(file.handle));
    const after = fingerprint(await file.handle.stat({ bigint: true }));
    if (before === after) return { fingerprint: after, digest };
  }
  throw new AppError('layer_corrupt', 'Cannot use the file: somebody writes it while it is read');
}

export async function openForReading(
  path: string,
): Promise<{ readonly handle: FileHandle } & AsyncDisposable> {
  const handle = await open(path, 'r');
  return { handle, [Symbol.asyncDispose]: () => handle.close() };
}
