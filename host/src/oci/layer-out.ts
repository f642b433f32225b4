/**
 * A layer on its way out: the launcher's tar of a tree becomes one as other engines read it. What the kernel's overlay deletes and hides
 * by devices and attributes, an image's layer does by names: `.wh.NAME` and `.wh..wh..opq`.
 *
 * The same tree gives the same bytes. The names in it are a sandbox's own, so one that would be a deletion elsewhere is refused.
 */
import { AppError } from '@squash/contract/errors';
import { headerBlock, paxRecord } from './layer-tar.ts';
import { padded, shown, tarBlock } from './tar-reader.ts';

const opaqueName = '.wh..wh..opq';
/** Small pieces go on together. */
const pieceBytes = 65_536;
const attributePrefix = 'SCHILY.xattr.';
const hidden = { mode: 0o600, uid: 0, gid: 0, mtimeS: 0, size: 0, target: '', attributes: [] };

/** `layer`: what it deletes below is told in names. `whole`: nothing is below, so nothing is deleted. */
export type OutForm = 'layer' | 'whole';

/** @param tar as `treeTar` gives it. @throws image_unsupported */
export async function* layerOut(
  tar: AsyncIterable<Uint8Array>,
  form: OutForm,
): AsyncGenerator<Buffer, void, void> {
  let waiting: Buffer[] = [];
  let bytes = 0;
  await using source = new TarBytes(tar);
  for await (const piece of entriesOf(source, form)) {
    waiting.push(piece);
    bytes += piece.length;
    if (bytes < pieceBytes) continue;
    yield Buffer.concat(waiting);
    waiting = [];
    bytes = 0;
  }
  yield Buffer.concat(waiting);
}

async function* entriesOf(source: TarBytes, form: OutForm): AsyncGenerator<Buffer, void, void> {
  for (;;) {
    const records = new Map<string, string>();
    let header = await source.take(tarBlock);
    if (header[156] === 0x78) {
      const size = sizeOf(header);
      takeRecords((await source.take(padded(size))).subarray(0, size), records);
      header = await source.take(tarBlock);
    }
    if (header.every((byte) => byte === 0)) break;
    const entry = { header, records, path: records.get('path') ?? textOf(header, 0) };
    yield headOf(entry, form);
    const size = header[156] === 0x30 ? Number(records.get('size') ?? sizeOf(header)) : 0;
    yield* source.pieces(padded(size));
  }
  yield Buffer.alloc(2 * tarBlock);
  await source.end();
}

interface Entry {
  readonly header: Buffer;
  readonly records: ReadonlyMap<string, string>;
  readonly path: string;
}

/** What stands in its place, without its data. */
function headOf({ header, records, path }: Entry, form: OutForm): Buffer {
  const type = String.fromCharCode(header[156] ?? 0);
  const isDeletion = type === '3' && textOf(header, 329, 16).replaceAll(/[0\0]/g, '') === '';
  const names = path.split('/');
  if (form === 'layer' && names.some((name) => name.startsWith('.wh.')))
    throw new AppError(
      'image_unsupported',
      `Cannot make a layer of it: "${shown(path)}" would be a deletion in any other engine; rename it`,
    );
  if (isDeletion && form === 'layer')
    return headerWith(`${path.slice(0, path.length - (names.at(-1) ?? '').length)}.wh.${names.at(-1)}`);
  // A sandbox has none of its own to take along, and an engine as root would make them.
  if (type === '3' || type === '4') return Buffer.alloc(0);
  const told = [...records].filter(([key]) => !isOverlays(key));
  const own = Buffer.concat([...recordBlocks(told), header]);
  const isOpaque =
    form === 'layer' && type === '5' && records.get(`${attributePrefix}user.overlay.opaque`) === 'y';
  return isOpaque ? Buffer.concat([own, headerWith(`${path.replace(/^\.\/$/, '')}${opaqueName}`)]) : own;
}

function isOverlays(key: string): boolean {
  return key.startsWith(`${attributePrefix}user.overlay.`) || key.startsWith(`${attributePrefix}trusted.`);
}

function headerWith(path: string): Buffer {
  const header = headerBlock({ ...hidden, path, flag: '0' });
  return Buffer.concat([...recordBlocks(path.length > 100 ? [['path', path]] : []), header]);
}

function recordBlocks(records: readonly (readonly [string, string])[]): readonly Buffer[] {
  if (records.length === 0) return [];
  const body = Buffer.from(records.map(paxRecord).join(''), 'latin1');
  const head = headerBlock({ ...hidden, path: 'pax', mode: 0o644, flag: 'x', size: body.length });
  return [head, body, Buffer.alloc(padded(body.length) - body.length)];
}

function takeRecords(body: Buffer, records: Map<string, string>): void {
  for (let at = 0; at < body.length; ) {
    const space = body.indexOf(0x20, at);
    const length = Number(body.toString('latin1', at, space));
    if (space < 0 || !Number.isSafeInteger(length) || length < 5) throw unreadable();
    const record = body.toString('latin1', space + 1, at + length - 1);
    const equals = record.indexOf('=');
    records.set(record.slice(0, equals), record.slice(equals + 1));
    at += length;
  }
}

function textOf(header: Buffer, offset: number, length = 100): string {
  const text = header.toString('latin1', offset, offset + length);
  if (length !== 100) return text;
  const end = text.indexOf('\0');
  return end < 0 ? text : text.slice(0, end);
}

function sizeOf(header: Buffer): number {
  return Number.parseInt(textOf(header, 124, 12), 8);
}

function unreadable(): AppError {
  return new AppError('launch_failed', 'Cannot make a layer of a tree: squash-launch sent no tar');
}

/** The bytes of a stream, as many as are asked for. */
class TarBytes implements AsyncDisposable {
  readonly #source: AsyncIterator<Uint8Array>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  async take(bytes: number): Promise<Buffer> {
    if (this.#rest.length < bytes) {
      const parts = [this.#rest];
      for (let have = this.#rest.length; have < bytes; ) {
        const next = await this.#next();
        parts.push(next);
        have += next.length;
      }
      this.#rest = Buffer.concat(parts);
    }
    const taken = this.#rest.subarray(0, bytes);
    this.#rest = this.#rest.subarray(bytes);
    return taken;
  }

  async *pieces(bytes: number): AsyncGenerator<Buffer, void, void> {
    for (let left = bytes; left > 0; ) {
      if (this.#rest.length === 0) this.#rest = await this.#next();
      const piece = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(piece.length);
      left -= piece.length;
      yield piece;
    }
  }

  /** To its end, so that who sends it says whether it is whole. @throws layer_corrupt where a file changed meanwhile */
  async end(): Promise<void> {
    for (;;) {
      const next = await this.#source.next();
      if (next.done !== true) continue;
      const { changed } = (next.value as { readonly changed: number } | undefined) ?? { changed: 0 };
      if (changed === 0) return;
      throw new AppError('layer_corrupt', 'Cannot make a layer of a tree: it changed while it was read');
    }
  }

  /** Whoever sends it stops. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#source.return?.();
  }

  async #next(): Promise<Buffer> {
    const next = await this.#source.next();
    if (next.done === true) throw unreadable();
    return Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
  }
}
