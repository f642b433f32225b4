/**
 * An image as one tar that is an OCI layout and a docker-archive at once, as `docker save` of today writes it. A layer's size is known
 * when it is there, so its header is written behind it.
 */
import type { FileHandle } from 'node:fs/promises';
import type { Image } from '@squash/contract/image';
import { type Document, documentOf, manifestType, type OutgoingImage } from './image-out.ts';
import type { LayerBlob } from './layer-blob.ts';
import { headerBlock, paxRecord } from './layer-tar.ts';
import { padded, tarBlock } from './tar-reader.ts';

const plain = { mode: 0o644, uid: 0, gid: 0, mtimeS: 0, target: '', attributes: [] };
/** Of a layer: its size is said by a record, whatever it is. */
const headBytes = 3 * tarBlock;
/** What eleven octal digits hold. */
const octalMax = 0o777_7777_7777;

export class ArchiveWriter {
  readonly #file: FileHandle;
  readonly #written = new Set<string>();
  #at = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** @param write writes it to the file at this place */
  async layer(write: (place: number) => Promise<LayerBlob>): Promise<LayerBlob> {
    const blob = await write(this.#at + headBytes);
    const { digest, size } = blob;
    // What is behind is written over by what comes.
    if (this.#written.has(digest)) return blob;
    this.#written.add(digest);
    const record = Buffer.alloc(tarBlock);
    const length = record.write(paxRecord(['size', `${size}`]), 'latin1');
    await this.#put([
      headerBlock({ ...plain, path: 'pax', flag: 'x', size: length }),
      record,
      headerBlock({ ...plain, path: pathOf(digest), flag: '0', size: Math.min(size, octalMax) }),
    ]);
    this.#at += size;
    await this.#put([Buffer.alloc(padded(size) - size)]);
    return blob;
  }

  /** What says which image it is. */
  async end(
    { name }: Image,
    { config, manifest }: OutgoingImage,
    layers: readonly LayerBlob[],
  ): Promise<void> {
    for (const { digest, bytes } of [config, manifest]) await this.#small(pathOf(digest), bytes);
    await this.#small('oci-layout', Buffer.from('{"imageLayoutVersion":"1.0.0"}'));
    await this.#small('index.json', indexOf(name, manifest).bytes);
    const list = [
      {
        Config: pathOf(config.digest),
        RepoTags: name.includes('@') ? null : [name],
        Layers: layers.map(({ digest }) => pathOf(digest)),
      },
    ];
    await this.#small('manifest.json', documentOf(list).bytes);
    await this.#put([Buffer.alloc(2 * tarBlock)]);
    // A layer that was there twice may have left something.
    await this.#file.truncate(this.#at);
  }

  async #small(path: string, bytes: Buffer): Promise<void> {
    const rest = Buffer.alloc(padded(bytes.length) - bytes.length);
    await this.#put([headerBlock({ ...plain, path, flag: '0', size: bytes.length }), bytes, rest]);
  }

  async #put(parts: readonly Buffer[]): Promise<void> {
    const bytes = Buffer.concat(parts);
    for (let done = 0; done < bytes.length; )
      done += (await this.#file.write(bytes, done, bytes.length - done, this.#at + done)).bytesWritten;
    this.#at += bytes.length;
  }
}

function pathOf(digest: string): string {
  return `blobs/sha256/${digest.replace('sha256:', '')}`;
}

function indexOf(name: string, { bytes, digest }: Document): Document {
  const annotations = { 'org.opencontainers.image.ref.name': name, 'io.containerd.image.name': name };
  return documentOf({
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.index.v1+json',
    manifests: [{ mediaType: manifestType, digest, size: bytes.length, annotations }],
  });
}
