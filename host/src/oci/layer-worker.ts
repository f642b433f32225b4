/**
 * Unpacks one layer's blob and writes it anew, in a thread of its own: what decompresses and parses anybody's bytes holds up
 * nobody, and its memory has a bound that ends the thread and not the daemon.
 *
 * Run as a worker with a `LayerTask`; posts `LayerDone` or `LayerRefused`.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  futimesSync,
  openSync,
  readSync,
  rmSync,
  statfsSync,
  writeSync,
} from 'node:fs';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { isDiskFull } from '@squash/base/errno';
import { Failure } from '@squash/base/failure';
import { writeLayer } from './layer-tar.ts';
import { type LayerBounds, type LayerFacts, LayerTree } from './layer-tree.ts';
import { readTar } from './tar-reader.ts';

export interface LayerTask {
  /** The blob: a part of a file. */
  readonly blob: { readonly path: string; readonly offset: number; readonly length: number };
  /** SHA-256 of the blob, where it is known. */
  readonly blobDigest: string | undefined;
  /** SHA-256 of the tar within. */
  readonly diffId: string;
  /** Directory for what is made; `tar` in it is the layer. */
  readonly work: string;
  readonly bounds: LayerBounds & { readonly bytesMax: number; readonly freeBytesMin: number };
}

export interface LayerDone extends LayerFacts {
  readonly done: true;
  /** Of the tar that came. */
  readonly bytes: number;
}

export interface LayerRefused {
  readonly done: false;
  readonly code: 'image_invalid' | 'image_unsupported' | 'disk_full' | 'internal';
  readonly message: string;
}

/** How often the disk's room is looked at. */
const lookBytes = 1 << 25;

async function main(task: LayerTask): Promise<LayerDone> {
  const raw = `${task.work}/raw`;
  const bytes = await unpack(task, raw);
  const source = openSync(raw, 'r');
  try {
    const tree = new LayerTree(task.bounds);
    for (const entry of readTar({ descriptor: source, offset: 0, length: bytes })) tree.add(entry);
    write(task, tree, source);
    return { done: true, bytes, ...tree.facts };
  } finally {
    closeSync(source);
    rmSync(raw, { force: true });
  }
}

function write({ work, bounds }: LayerTask, tree: LayerTree, source: number): void {
  const target = openSync(`${work}/tar`, 'wx', 0o600);
  try {
    let lookAt = 0;
    const onBytes = (bytes: number): void => {
      if (bytes < lookAt) return;
      lookAt = bytes + lookBytes;
      checkRoom(work, bounds.freeBytesMin);
    };
    const { mtimeS } = writeLayer(tree, { source, target, onBytes });
    // The image and its root get this time.
    futimesSync(target, mtimeS, mtimeS);
  } finally {
    closeSync(target);
  }
}

/** Decompressed into a file, both digests checked. Its length. */
async function unpack(task: LayerTask, path: string): Promise<number> {
  const { blob, bounds } = task;
  const blobHash = createHash('sha256');
  const tarHash = createHash('sha256');
  const target = openSync(path, 'wx', 0o600);
  let bytes = 0;
  let lookAt = 0;
  try {
    const read =
      blob.length === 0
        ? Readable.from([])
        : createReadStream(blob.path, {
            start: blob.offset,
            end: blob.offset + blob.length - 1,
            highWaterMark: 1 << 18,
          });
    const onBlob = hashed(blobHash);
    const decompress = decompressorOf(blob);
    const taken = async (source: AsyncIterable<Buffer>): Promise<void> => {
      for await (const piece of source) {
        bytes += piece.length;
        if (bytes > bounds.bytesMax)
          throw new Failure('image_invalid', `it unpacks to more than ${bounds.bytesMax} bytes`);
        if (bytes >= lookAt) {
          lookAt = bytes + lookBytes;
          checkRoom(task.work, bounds.freeBytesMin);
        }
        tarHash.update(piece);
        writeAll(target, piece);
      }
    };
    if (decompress === undefined) await pipeline(read, onBlob, taken);
    else await pipeline(read, onBlob, decompress, taken);
  } finally {
    closeSync(target);
  }
  checkDigest('the blob', task.blobDigest, blobHash.digest('hex'));
  checkDigest('the unpacked layer', task.diffId, tarHash.digest('hex'));
  return bytes;
}

/** Hands the bytes on. */
function hashed(hash: ReturnType<typeof createHash>): Transform {
  return new Transform({
    transform(piece: Buffer, _, next): void {
      hash.update(piece);
      next(null, piece);
    },
  });
}

/** By its first bytes: media types of images are often wrong. */
function decompressorOf({ path, offset, length }: LayerTask['blob']): Transform | undefined {
  const descriptor = openSync(path, 'r');
  try {
    const head = Buffer.alloc(6);
    readSync(descriptor, head, 0, Math.min(6, length), offset);
    const hex = head.toString('hex');
    if (hex.startsWith('1f8b')) return createGunzip();
    if (hex.startsWith('28b52ffd') || /^5[0-9a-f]2a4d18/.test(hex)) return createZstdDecompress();
    if (hex.startsWith('425a68')) throw new Failure('image_unsupported', 'a layer is compressed by bzip2');
    if (hex.startsWith('fd377a585a00')) throw new Failure('image_unsupported', 'a layer is compressed by xz');
    return undefined;
  } finally {
    closeSync(descriptor);
  }
}

function checkDigest(what: string, wanted: string | undefined, found: string): void {
  if (wanted === undefined || wanted === found) return;
  throw new Failure('image_invalid', `${what} has the digest ${found}, and should have ${wanted}`);
}

function checkRoom(path: string, bytesMin: number): void {
  const { bavail, bsize } = statfsSync(path);
  if (bavail * bsize < bytesMin)
    throw new Failure('disk_full', 'the data directory has no room for its layers');
}

function writeAll(descriptor: number, bytes: Buffer): void {
  for (let written = 0; written < bytes.length; ) {
    written += writeSync(descriptor, bytes, written, bytes.length - written);
  }
}

function refusalOf(error: unknown): LayerRefused {
  if (isDiskFull(error))
    return { done: false, code: 'disk_full', message: 'the data directory has no room for its layers' };
  const { code, message } =
    error instanceof Error ? (error as NodeJS.ErrnoException) : { code: '', message: String(error) };
  if (code === 'image_invalid' || code === 'image_unsupported' || code === 'disk_full')
    return { done: false, code, message };
  if (code === 'tar_malformed') return { done: false, code: 'image_invalid', message };
  // What zlib says of bytes that are no stream of its kind, or end too early.
  if (/^Z_|^ZSTD_|^ERR_(_)?ZSTD|ERR_ZLIB/.test(code ?? ''))
    return { done: false, code: 'image_invalid', message: `a layer can't be decompressed (${message})` };
  return { done: false, code: 'internal', message };
}

async function answerWith(port: MessagePort): Promise<void> {
  try {
    port.postMessage(await main(workerData as LayerTask));
  } catch (error) {
    port.postMessage(refusalOf(error));
  }
}

if (parentPort !== null) void answerWith(parentPort);
