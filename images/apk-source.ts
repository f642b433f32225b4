/**
 * A package of Alpine: found in the repository's index, and held against what that says of it.
 *
 * An `.apk` is three gzip members: a signature, the control part and the data. The index has the SHA-1 of the control part, and that has
 * the SHA-256 of the data. The index is as good as the connection, as published checksums are: Alpine's keys are not known here.
 */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, inflateRawSync } from 'node:zlib';
import { Failure } from '@squash/base/failure';
import { download, shown } from './download.ts';
import { mirrorOf } from './mirrors.ts';
import type { ApkSource } from './preset.ts';
import { requireTrusted } from './published.ts';
import type { FetchPlace, SourceFile } from './source-file.ts';
import { readFromTar } from './tar/difference.ts';

const official = 'https://dl-cdn.alpinelinux.org/alpine';
const indexBytesMax = 16_777_216;
const plainBytesMax = 268_435_456;

export async function fetchApk(source: ApkSource, place: FetchPlace): Promise<SourceFile> {
  const arch = { amd64: 'x86_64', arm64: 'aarch64' }[place.architecture];
  const folder = `v${place.version ?? source.version}/${source.repository}/${arch}`;
  const base = `${mirrorOf('ALPINE') ?? official}/${folder}`;
  const entry = await findInIndex(`${base}/APKINDEX.tar.gz`, source.package, place);
  const name = `${source.package}-${entry.version}.apk`;
  const url = `${base}/${name}`;
  const file = join(place.scratch, 'package.apk');
  place.onProgress(`downloading ${name}`);
  const onBytes = (done: number, total: number | undefined) =>
    place.onProgress(`downloading ${name}`, { done, total });
  await download({ url, file, bytesMax: place.bytesMax, onBytes }, place.signal);
  const members = gzipMembers(readFileSync(file), name);
  const [control, data] = members.slice(-2);
  if (control === undefined || data === undefined || members.length > 3)
    throw new Failure('archive_damaged', `${name}: is no package of Alpine`);
  const sum = `Q1${createHash('sha1').update(control).digest('base64')}`;
  const wrong = (is: string, should: string) =>
    new Failure('wrong_digest', `${shown(url)}: its checksum is ${is}, and should be ${should}`);
  if (sum !== entry.checksum) throw wrong(sum, entry.checksum);
  const stated = /^datahash = ([0-9a-f]{64})$/m.exec(pkgInfo(control, place.scratch))?.[1];
  const digest = createHash('sha256').update(data).digest('hex');
  if (digest !== stated) throw wrong(digest, stated ?? 'stated');
  writeFileSync(file, data);
  return { file, version: entry.version, from: `${official}/${folder}/${name}`, digest: `sha256:${digest}` };
}

interface IndexEntry {
  readonly version: string;
  readonly checksum: string;
}

async function findInIndex(url: string, name: string, place: FetchPlace): Promise<IndexEntry> {
  requireTrusted(url, 'ALPINE');
  const file = join(place.scratch, 'index');
  await download({ url, file, bytesMax: indexBytesMax }, place.signal);
  const tar = join(place.scratch, 'index.tar');
  writeFileSync(tar, unzipped(readFileSync(file), 'APKINDEX.tar.gz'));
  for (const stanza of (readFromTar(tar, 'APKINDEX') ?? '').split('\n\n')) {
    const field = (letter: string) => new RegExp(`^${letter}:(.+)$`, 'm').exec(stanza)?.[1];
    const [version, checksum] = [field('V'), field('C')];
    if (field('P') !== name || version === undefined || checksum === undefined) continue;
    if (/^[0-9A-Za-z._-]+$/.test(version)) return { version, checksum };
  }
  throw new Failure('no_such_version', `${shown(url)}: has no package "${name}"`);
}

function pkgInfo(control: Buffer, scratch: string): string {
  const tar = join(scratch, 'control.tar');
  writeFileSync(tar, unzipped(control, 'control'));
  return readFromTar(tar, '.PKGINFO') ?? '';
}

function unzipped(data: Buffer, name: string): Buffer {
  try {
    return gunzipSync(data, { maxOutputLength: plainBytesMax });
  } catch (cause) {
    throw new Failure('archive_damaged', `${name}: is damaged`, { cause });
  }
}

/** Each as it stands: the sums are of compressed bytes. */
function gzipMembers(file: Buffer, name: string): readonly Buffer[] {
  const members: Buffer[] = [];
  try {
    for (let at = 0; at < file.length; ) {
      const start = at + headerBytes(file.subarray(at));
      const options = { info: true, maxOutputLength: plainBytesMax } as const;
      // The types do not know what `info` answers.
      const { engine } = inflateRawSync(file.subarray(start), options) as unknown as {
        readonly engine: { readonly bytesWritten: number };
      };
      const end = start + engine.bytesWritten + 8;
      members.push(file.subarray(at, end));
      at = end;
      if (members.length > 3) break;
    }
  } catch (cause) {
    throw new Failure('archive_damaged', `${name}: is damaged`, { cause });
  }
  return members;
}

function headerBytes(member: Buffer): number {
  if (member.readUInt16BE(0) !== 0x1f_8b) throw new Failure('archive_damaged', 'no gzip member');
  const flags = member.readUInt8(3);
  let at = 10;
  if ((flags & 4) !== 0) at += 2 + member.readUInt16LE(at);
  for (const text of [8, 16]) if ((flags & text) !== 0) at = member.indexOf(0, at) + 1;
  return (flags & 2) === 0 ? at : at + 2;
}
