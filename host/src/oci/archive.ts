/**
 * An image in a tar file: docker-archive (`manifest.json`, as `docker save` and `podman save` write it) or an OCI layout
 * (`index.json` and `blobs/`). Nothing is unpacked: the file is looked through once, and parts are read where they lie.
 */
import { closeSync, fstatSync, openSync } from 'node:fs';
import { z } from 'zod';
import { limits } from '@squash/contract/limits';
import { Failure } from '@squash/base/failure';
import type { SourceImage, SourceLayer } from './image-source.ts';
import { namesOf } from './layer-tree.ts';
import {
  type Descriptor,
  digestOf,
  dockerListSchema,
  forThisMachine,
  invalid,
  type Manifest,
  parseConfig,
  parseJson,
  parseManifest,
} from './manifests.ts';
import { readBytes, readTar } from './tar-reader.ts';

/**
 * More than any archive of images has: a layer has three, an OCI layout one for each part. It is looked through in the daemon's
 * own thread.
 */
const entriesMax = 16_384;
/** Of names and targets together. */
const textBytesMax = 1 << 23;
const linksMax = 8;
/** Indexes within indexes. */
const depthMax = 4;

interface Part {
  readonly offset: number;
  readonly size: number;
}

/** What the archive says it holds. */
export interface FoundImage {
  readonly image: SourceImage;
  /** As it is called in there. */
  readonly names: readonly string[];
}

/** @param pick the tag or name of the image that is wanted, of several. @throws image_invalid, image_unsupported */
export function readArchive(path: string, pick: string | undefined): FoundImage {
  const descriptor = openSync(path, 'r');
  try {
    const archive = new Archive(path, descriptor);
    return archive.has('index.json') && archive.has('oci-layout')
      ? ociImage(archive, pick)
      : dockerImage(archive, pick);
  } catch (error) {
    if (error instanceof Failure) throw invalid(`the archive is malformed: ${error.message}`, error);
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

class Archive {
  readonly path: string;
  readonly #descriptor: number;
  readonly #parts = new Map<string, Part>();
  readonly #links = new Map<string, string>();

  constructor(path: string, descriptor: number) {
    this.path = path;
    this.#descriptor = descriptor;
    const length = fstatSync(descriptor).size;
    const head = readBytes(descriptor, 0, Math.min(length, 4)).toString('hex');
    if (head.startsWith('1f8b') || head === '28b52ffd')
      throw invalid('the archive is compressed: decompress it first, as `gunzip` or `zstd -d` does');
    let entries = 0;
    let text = 0;
    for (const { name, type, target, size, dataOffset } of readTar({ descriptor, offset: 0, length })) {
      entries += 1;
      text += name.length + target.length;
      if (entries > entriesMax) throw invalid(`the archive has more than ${entriesMax} entries`);
      if (text > textBytesMax) throw invalid(`the archive’s names have more than ${textBytesMax} bytes`);
      const own = namesOf(name).join('/');
      if (this.#parts.has(own) || this.#links.has(own))
        throw invalid(`the archive has "${own.slice(0, 100)}" twice`);
      if (type === 'file') this.#parts.set(own, { offset: dataOffset, size });
      // As `docker save` of old writes a layer that it has written before.
      else if (type === 'symlink') this.#links.set(own, linked(own, target));
      else if (type === 'link') this.#links.set(own, namesOf(target).join('/'));
    }
  }

  has(name: string): boolean {
    return this.#find(name) !== undefined;
  }

  part(name: string): Part {
    const found = this.#find(namesOf(name).join('/'));
    if (found === undefined) throw invalid(`the archive has no "${name.slice(0, 200)}"`);
    return found;
  }

  /** A small part whole. */
  read(name: string): Buffer {
    const { offset, size } = this.part(name);
    if (size > limits.imageManifestBytesMax)
      throw invalid(`"${name}" has ${size} bytes, more than ${limits.imageManifestBytesMax}`);
    return readBytes(this.#descriptor, offset, size);
  }

  #find(name: string): Part | undefined {
    let at = name;
    for (let links = 0; links < linksMax; links += 1) {
      const next = this.#links.get(at);
      if (next === undefined) return this.#parts.get(at);
      at = next;
    }
    return undefined;
  }
}

/** Where a link leads, within the archive. */
function linked(own: string, target: string): string {
  const at = target.startsWith('/') ? [] : own.split('/').slice(0, -1);
  for (const name of target.split('/')) {
    if (name === '..') at.pop();
    else if (name !== '' && name !== '.') at.push(name);
  }
  return at.join('/');
}

// ---- docker-archive ----

function dockerImage(archive: Archive, pick: string | undefined): FoundImage {
  if (!archive.has('manifest.json')) throw invalid('the file is neither a docker-archive nor an OCI layout');
  const list = parseJson(dockerListSchema, archive.read('manifest.json'), 'manifest.json');
  const found = one(list, pick, ({ RepoTags }) => RepoTags ?? []);
  const config = parseConfig(archive.read(found.Config));
  if (config.diffIds.length !== found.Layers.length)
    throw invalid(
      `its configuration has ${config.diffIds.length} layers, the archive ${found.Layers.length}`,
    );
  const layers = found.Layers.map((name, at) =>
    layerOf(archive, { part: archive.part(name), diffId: config.diffIds[at] ?? '', digest: undefined }),
  );
  return { image: { source: 'archive', digest: null, config, layers }, names: found.RepoTags ?? [] };
}

// ---- OCI layout ----

const refName = 'org.opencontainers.image.ref.name';
const containerdName = 'io.containerd.image.name';

function namesIn({ annotations }: Descriptor): readonly string[] {
  return [annotations?.[containerdName], annotations?.[refName]].filter((each) => each !== undefined);
}

function ociImage(archive: Archive, pick: string | undefined): FoundImage {
  const layout = parseJson(
    z.object({ imageLayoutVersion: z.string() }),
    archive.read('oci-layout'),
    'oci-layout',
  );
  if (!layout.imageLayoutVersion.startsWith('1.'))
    throw invalid(`its layout has version "${layout.imageLayoutVersion.slice(0, 20)}"`);
  const parsed = parseManifest(archive.read('index.json'));
  if (!('index' in parsed)) throw invalid('index.json is no index');
  const isOneImage =
    pick === undefined &&
    parsed.index.length > 1 &&
    parsed.index.every(({ platform }) => (platform ?? undefined) !== undefined);
  const found = isOneImage ? forThisMachine(parsed.index) : one(parsed.index, pick, namesIn);
  const { manifest, digest } = manifestOf(archive, found, depthMax);
  const config = parseConfig(readBlob(archive, manifest.config));
  if (config.diffIds.length !== manifest.layers.length)
    throw invalid(
      `its configuration has ${config.diffIds.length} layers, its manifest ${manifest.layers.length}`,
    );
  const layers = manifest.layers.map(({ digest: blob, size }, at) => {
    const part = archive.part(blobName(blob));
    if (part.size !== size) throw invalid(`layer ${blob} has ${part.size} bytes, and should have ${size}`);
    return layerOf(archive, { part, diffId: config.diffIds[at] ?? '', digest: blob });
  });
  return { image: { source: 'archive', digest, config, layers }, names: namesIn(found) };
}

function manifestOf(
  archive: Archive,
  descriptor: Descriptor,
  depth: number,
): { readonly manifest: Manifest; readonly digest: string } {
  const parsed = parseManifest(readBlob(archive, descriptor));
  if ('manifest' in parsed) return { manifest: parsed.manifest, digest: descriptor.digest };
  if (depth === 0) throw invalid(`it has indexes within indexes, more than ${depthMax}`);
  return manifestOf(archive, forThisMachine(parsed.index), depth - 1);
}

function readBlob(archive: Archive, { digest, size }: Descriptor): Buffer {
  const bytes = archive.read(blobName(digest));
  if (bytes.length !== size) throw invalid(`"${digest}" has ${bytes.length} bytes, and should have ${size}`);
  if (digestOf(bytes) !== digest)
    throw invalid(`what lies under "${digest}" has the digest ${digestOf(bytes)}`);
  return bytes;
}

function blobName(digest: string): string {
  return `blobs/${digest.replace(':', '/')}`;
}

// ---- both ----

/** The one image, or the one that is picked by a name or the tag in it. */
function one<T>(list: readonly T[], pick: string | undefined, namesIn: (each: T) => readonly string[]): T {
  const isPicked = (name: string): boolean => name === pick || name.endsWith(`:${pick}`);
  const fits = pick === undefined ? list : list.filter((each) => namesIn(each).some(isPicked));
  const [first] = fits;
  if (first !== undefined && fits.length === 1) return first;
  const names = list.flatMap(namesIn).slice(0, 16).join(', ');
  if (pick !== undefined && fits.length === 0)
    throw invalid(`the archive has no "${pick}": it has ${names || 'no names'}`);
  throw invalid(`the archive has ${fits.length} images, pick one: ${names || 'they have no names'}`);
}

function layerOf(
  { path }: Archive,
  {
    part,
    diffId,
    digest,
  }: { readonly part: Part; readonly diffId: string; readonly digest: string | undefined },
): SourceLayer {
  return {
    diffId,
    digest,
    size: part.size,
    open: async (_, onBytes) => {
      onBytes(part.size);
      return {
        path,
        offset: part.offset,
        length: part.size,
        // The archive is whoever sent it's.
        [Symbol.asyncDispose]: async () => undefined,
      };
    },
  };
}
