/**
 * Images from registries that speak the distribution protocol: https://distribution.github.io/distribution/spec/api/.
 *
 * What a registry answers is checked against the digests that lead to it, from the manifest down, so a registry can refuse an image
 * but give no other than was asked for, as far as a digest was asked for. Blobs are fetched to files, go on where they broke off,
 * and are held to their stated sizes and to the room on the disk while they come.
 */
import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError } from '@squash/contract/errors';
import type { ImageReference } from '@squash/contract/image-reference';
import { limits } from '@squash/contract/limits';
import { isDiskFull } from '@squash/base/errno';
import { Failure } from '@squash/base/failure';
import type { RegistryConfig } from '../config/config.ts';
import type { BlobPlace, ImageTarget, Registries, SourceImage } from './image-source.ts';
import {
  type Descriptor,
  digestOf,
  forThisMachine,
  invalid,
  type Manifest,
  parseConfig,
  parseManifest,
} from './manifests.ts';
import { readBody } from './read-text.ts';
import { type Answered, reasonOf, silentMsMax } from './registry-request.ts';
import { openSession, type RegistrySession } from './registry-session.ts';
import { RegistryUpload } from './registry-upload.ts';

/** How often the disk's room is looked at. */
const lookBytes = 1 << 25;
const indexDepthMax = 4;
const accept = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ');

export interface RegistriesOptions {
  readonly dataDir: string;
  readonly registries: RegistryConfig;
}

export class HttpRegistries implements Registries {
  readonly #options: RegistriesOptions;

  constructor(options: RegistriesOptions) {
    this.#options = options;
  }

  async find(
    reference: ImageReference,
    signal: AbortSignal,
  ): Promise<{ readonly image: SourceImage } & AsyncDisposable> {
    const { dataDir, registries } = this.#options;
    const repositoryOf = new Repository(await openSession(reference, { registries, purpose: 'have' }));
    const work = join(dataDir, 'tmp', `oci-blobs-${randomBytes(6).toString('hex')}`);
    await mkdir(work, { mode: 0o700 });
    const remove = (): Promise<void> => rm(work, { recursive: true, force: true });
    try {
      return {
        image: await imageOf(repositoryOf, reference, { work, signal }),
        [Symbol.asyncDispose]: remove,
      };
    } catch (error) {
      await remove();
      throw error;
    }
  }

  async target(reference: ImageReference): Promise<ImageTarget> {
    const { registries } = this.#options;
    return new RegistryUpload(await openSession(reference, { registries, purpose: 'push' }));
  }
}

async function imageOf(
  repository: Repository,
  { version, digest }: ImageReference,
  { work, signal }: { readonly work: string; readonly signal: AbortSignal },
): Promise<SourceImage> {
  let bytes = await repository.manifest(version, signal);
  if (digest !== undefined) checkDigest('the manifest', digest, bytes);
  let found = parseManifest(bytes);
  for (let depth = 0; 'index' in found; depth += 1) {
    if (depth === indexDepthMax) throw invalid(`it has indexes within indexes, more than ${indexDepthMax}`);
    const chosen = forThisMachine(found.index);
    bytes = await repository.manifest(chosen.digest, signal);
    checkDigest('the manifest', chosen.digest, bytes);
    found = parseManifest(bytes);
  }
  const { manifest } = found;
  const config = parseConfig(await repository.small(manifest.config, signal));
  if (config.diffIds.length !== manifest.layers.length)
    throw invalid(
      `its configuration has ${config.diffIds.length} layers, its manifest ${manifest.layers.length}`,
    );
  return {
    source: 'registry',
    digest: digestOf(bytes),
    config,
    layers: layersOf(repository, manifest, { diffIds: config.diffIds, work }),
  };
}

function layersOf(
  repository: Repository,
  manifest: Manifest,
  { diffIds, work }: { readonly diffIds: readonly string[]; readonly work: string },
): SourceImage['layers'] {
  return manifest.layers.map((layer, at) => ({
    diffId: diffIds[at] ?? '',
    digest: layer.digest,
    size: layer.size,
    open: (signal, onBytes) => repository.blob(layer, { path: join(work, `${at}`), onBytes }, signal),
  }));
}

function checkDigest(what: string, wanted: string, bytes: Buffer): void {
  const found = digestOf(bytes);
  if (found !== wanted) throw invalid(`${what} has the digest ${found}, and should have ${wanted}`);
}

interface BlobTarget {
  readonly path: string;
  /** Of what has come. */
  readonly onBytes: (bytes: number) => void;
}

class Repository {
  readonly #session: RegistrySession;

  constructor(session: RegistrySession) {
    this.#session = session;
  }

  async manifest(version: string, signal: AbortSignal): Promise<Buffer> {
    return await this.#session.patiently(signal, async () => {
      const answer = await this.#session.ask({ what: `manifests/${version}`, headers: { accept } }, signal);
      return await readBody(answer, limits.imageManifestBytesMax);
    });
  }

  /** A blob that is no layer, whole. */
  async small(descriptor: Descriptor, signal: AbortSignal): Promise<Buffer> {
    if (descriptor.size > limits.imageManifestBytesMax)
      throw invalid(
        `its configuration has ${descriptor.size} bytes, more than ${limits.imageManifestBytesMax}`,
      );
    const bytes = await this.#session.patiently(signal, async () =>
      readBody(
        await this.#session.ask({ what: `blobs/${descriptor.digest}` }, signal),
        limits.imageManifestBytesMax,
      ),
    );
    checkDigest('the configuration', descriptor.digest, bytes);
    return bytes;
  }

  /** To a file. Its digest is checked by whoever reads it. */
  async blob(descriptor: Descriptor, { path, onBytes }: BlobTarget, signal: AbortSignal): Promise<BlobPlace> {
    const file = await open(path, 'wx', 0o600);
    const remove = (): Promise<void> => rm(path, { force: true });
    try {
      const fetching = new BlobFetch({
        descriptor,
        file,
        path,
        onBytes,
        ask: (headers) => this.#session.ask({ what: `blobs/${descriptor.digest}`, headers }, signal),
      });
      await this.#session.patiently(
        signal,
        () => fetching.goOn(signal),
        () => fetching.bytes,
      );
      return { path, offset: 0, length: descriptor.size, [Symbol.asyncDispose]: remove };
    } catch (error) {
      await remove();
      if (isDiskFull(error)) throw noRoom();
      throw error;
    } finally {
      await file.close();
    }
  }
}

interface FetchOptions extends BlobTarget {
  readonly descriptor: Descriptor;
  readonly file: FileHandle;
  readonly ask: (headers: Readonly<Record<string, string>>) => Promise<Answered>;
}

class BlobFetch {
  readonly #options: FetchOptions;
  bytes = 0;
  #lookAt = 0;

  constructor(options: FetchOptions) {
    this.#options = options;
  }

  /** From where it broke off to the end. */
  async goOn(signal: AbortSignal): Promise<void> {
    const { descriptor, file, ask, onBytes } = this.#options;
    if (this.bytes === descriptor.size) return;
    await this.#checkRoom();
    const answer = await ask(this.bytes === 0 ? {} : { range: `bytes=${this.bytes}-` });
    const isRest =
      answer.status === 206 && answer.header('content-range')?.startsWith(`bytes ${this.bytes}-`) === true;
    if (this.bytes > 0 && !isRest) {
      // It gives all of it or nothing.
      onBytes(-this.bytes);
      this.bytes = 0;
      await file.truncate(0);
    }
    const end = (): void => void answer.body.destroy(new Failure('ETIMEDOUT', 'nothing came for too long'));
    const timer = setTimeout(end, silentMsMax);
    const stop = (): void => void answer.body.destroy();
    signal.addEventListener('abort', stop, { once: true });
    try {
      for await (const piece of answer.body as AsyncIterable<Buffer>) {
        timer.refresh();
        await this.#take(piece);
      }
    } catch (cause) {
      if (cause instanceof AppError || isDiskFull(cause)) throw cause;
      throw unfinished(answer, reasonOf(cause as Error), cause);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      answer.body.destroy();
    }
    if (this.bytes < descriptor.size)
      throw unfinished(answer, `ended after ${this.bytes} of ${descriptor.size} bytes`);
  }

  async #take(piece: Buffer): Promise<void> {
    const { descriptor, file, onBytes } = this.#options;
    if (this.bytes + piece.length > descriptor.size)
      throw invalid(`layer ${descriptor.digest} is longer than its ${descriptor.size} bytes`);
    for (let written = 0; written < piece.length; )
      written += (await file.write(piece, written, piece.length - written, this.bytes + written))
        .bytesWritten;
    this.bytes += piece.length;
    onBytes(piece.length);
    if (this.bytes >= this.#lookAt) await this.#checkRoom();
  }

  async #checkRoom(): Promise<void> {
    this.#lookAt = this.bytes + lookBytes;
    const { bavail, bsize } = await statfs(this.#options.path);
    const missing = this.#options.descriptor.size - this.bytes;
    if (bavail * bsize < limits.imageFreeBytesMin + missing) throw noRoom();
  }
}

function unfinished({ url }: Answered, what: string, cause?: unknown): AppError {
  return new AppError('registry_unavailable', `Cannot use registry "${url.host}": it ${what}`, { cause });
}

function noRoom(): AppError {
  return new AppError('disk_full', 'Cannot have the image: the data directory has no room for its layers');
}
