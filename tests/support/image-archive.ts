/** Archives as a hostile or careless tool may write them: every field of a header as it is given, whether or not it makes sense. */
import { createHash } from 'node:crypto';

const block = 512;

export interface RawEntry {
  readonly name: string;
  /** Of a ustar header; a name that ends with `/` is a directory's, anything else a file's. */
  readonly flag?: string;
  readonly data?: string | Buffer;
  readonly mode?: number;
  readonly uid?: number;
  readonly gid?: number;
  readonly mtime?: number;
  readonly target?: string;
  /** What the header says, where it is not the data's. */
  readonly size?: number;
  readonly pax?: Readonly<Record<string, string>>;
  /** Written over the finished header. */
  readonly spoil?: (header: Buffer) => void;
}

export function tarOf(entries: readonly RawEntry[], end: Buffer = Buffer.alloc(2 * block)): Buffer {
  return Buffer.concat([...entries.flatMap(blocksOf), end]);
}

function blocksOf(entry: RawEntry): readonly Buffer[] {
  const data = Buffer.from(entry.data ?? '');
  const own = [headerOf(entry, data.length), data, padding(data.length)];
  if (entry.pax === undefined) return own;
  const body = Buffer.from(Object.entries(entry.pax).map(recordOf).join(''), 'latin1');
  return [headerOf({ name: 'pax', flag: 'x' }, body.length), body, padding(body.length), ...own];
}

function recordOf([key, value]: readonly [string, string]): string {
  const rest = ` ${key}=${value}\n`;
  let length = rest.length;
  while (`${length}`.length + rest.length !== length) length = `${length}`.length + rest.length;
  return `${length}${rest}`;
}

function padding(bytes: number): Buffer {
  return Buffer.alloc((block - (bytes % block)) % block);
}

function headerOf(entry: RawEntry, bytes: number): Buffer {
  const header = Buffer.alloc(block);
  const { name, flag = name.endsWith('/') ? '5' : '0', mode = flag === '5' ? 0o755 : 0o644 } = entry;
  header.write(name, 0, 100, 'latin1');
  const octal = (value: number, at: number, digits: number): number =>
    header.write(`${value.toString(8).padStart(digits, '0')}\0`, at, 'latin1');
  octal(mode, 100, 7);
  octal(entry.uid ?? 0, 108, 7);
  octal(entry.gid ?? 0, 116, 7);
  octal(entry.size ?? bytes, 124, 11);
  octal(entry.mtime ?? 1_700_000_000, 136, 11);
  header.write(`        ${flag}`, 148, 'latin1');
  header.write(entry.target ?? '', 157, 100, 'latin1');
  header.write('ustar\x0000', 257, 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  entry.spoil?.(header);
  return header;
}

export const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex');

export interface ArchivedImage {
  /** As they lie in the archive, lowest first. */
  readonly layers: readonly Buffer[];
  /** Of the tars within, where they are not what the layers are. */
  readonly diffIds?: readonly string[];
  readonly name?: string;
  /** Over what an image for this machine says. */
  readonly config?: Readonly<Record<string, unknown>>;
}

export const ownArchitecture = process.arch === 'x64' ? 'amd64' : 'arm64';

export function configOf({ layers, diffIds, config }: ArchivedImage): string {
  return JSON.stringify({
    architecture: ownArchitecture,
    os: 'linux',
    config: {},
    rootfs: { type: 'layers', diff_ids: (diffIds ?? layers.map(sha256)).map((each) => `sha256:${each}`) },
    ...config,
  });
}

/** As `docker save` writes it. */
export function dockerArchive(image: ArchivedImage): Buffer {
  const files = image.layers.map((data, at) => ({ name: `${at}.tar`, data }));
  const list = [
    {
      Config: 'config.json',
      RepoTags: image.name === undefined ? null : [image.name],
      Layers: files.map(({ name }) => name),
    },
  ];
  return tarOf([
    { name: 'manifest.json', data: JSON.stringify(list) },
    { name: 'config.json', data: configOf(image) },
    ...files,
  ]);
}
