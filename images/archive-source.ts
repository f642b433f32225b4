/**
 * An archive of an upstream: which file it is, the file itself, and the proof that it is the one.
 *
 * The proof is a sum that the preset holds, or the one that upstream publishes beside the archive. That is as good as the
 * connection it comes over, so it is taken over https alone, and over http from this machine itself.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from '@squash/base/failure';
import { download, shown } from './download.ts';
import { mirrorOf } from './mirrors.ts';
import { sha256OfFile } from './pack.ts';
import type { ArchiveSource } from './preset.ts';
import { type FoundFile, newestFile, publishedSum, requireTrusted } from './published.ts';
import type { FetchPlace, SourceFile } from './source-file.ts';

/** Lists of all that there ever was: go.dev's has 3 MB. */
const pageBytesMax = 16_777_216;

export async function fetchArchive(source: ArchiveSource, place: FetchPlace): Promise<SourceFile> {
  const upstream = new Upstream(source, place);
  const found = await upstream.find();
  // Before the archive: what has no sum is not fetched.
  const wanted = await upstream.sumOf(found);
  const file = join(place.scratch, 'archive');
  const { onProgress, bytesMax, signal } = place;
  onProgress(`downloading ${found.file}`);
  const onBytes = (done: number, total: number | undefined) =>
    onProgress(`downloading ${found.file}`, { done, total });
  await download({ url: upstream.address(found), file, bytesMax, onBytes }, signal);
  const digest = await sha256OfFile(file);
  if (digest !== wanted) {
    throw new Failure(
      'wrong_digest',
      `${shown(upstream.address(found))}: its SHA-256 is ${digest}, and should be ${wanted}`,
    );
  }
  return { file, version: found.version, from: upstream.official(found), digest: `sha256:${digest}` };
}

class Upstream {
  readonly #source: ArchiveSource;
  readonly #place: FetchPlace;
  readonly #mirror: string | undefined;
  readonly #arch: string;
  readonly #version: string;
  readonly #pages = new Map<string, string>();

  constructor(source: ArchiveSource, place: FetchPlace) {
    const arch = source.architectures[place.architecture];
    if (arch === undefined)
      throw new Failure('no_such_architecture', `${source.url}: has nothing for ${place.architecture}`);
    const word = place.version ?? source.version;
    this.#source = source;
    this.#place = place;
    this.#mirror = mirrorOf(source.mirror);
    this.#arch = arch;
    this.#version = source.version_names[word] ?? word;
  }

  async find(): Promise<FoundFile> {
    const { file, listing, checksum } = this.#source;
    const plain = { file: this.#filled(file, this.#version), version: this.#version };
    const namesFiles = checksum.kind === 'published' && !checksum.at.includes('{file}');
    const page = listing ?? (namesFiles ? checksum.at : undefined);
    if (page === undefined) return this.#named(plain);
    const address = this.#below(this.#filled(this.#onMirror(page), this.#version));
    const template = { file, version: this.#version, arch: this.#arch };
    return newestFile(await this.#page(address), template) ?? this.#named(plain, address);
  }

  /** A version that no page names has to be a whole one. */
  #named(plain: FoundFile, page?: string): FoundFile {
    if (plain.version !== 'newest' && (page === undefined || !this.#source.file.includes('{version}{patch}')))
      return plain;
    if (/^\d+\.\d+\.\d+/.test(plain.version)) return plain;
    const where = page === undefined ? '' : `; "${shown(page)}" names none`;
    throw new Failure(
      'no_such_version',
      `no file like "${plain.file}" of version "${plain.version}"${where}`,
    );
  }

  async sumOf(found: FoundFile): Promise<string> {
    const { checksum } = this.#source;
    if (checksum.kind === 'fixed') {
      const sum = checksum.sha256[this.#place.architecture];
      if (sum !== undefined && (this.#place.version ?? this.#source.version) === this.#source.version)
        return sum;
      throw new Failure(
        'checksum_missing',
        `the preset has a checksum of version "${this.#source.version}" alone, and none for ${found.file}`,
      );
    }
    const address = this.#below(this.#filled(this.#onMirror(checksum.at), found.version, found.file));
    return publishedSum(await this.#page(address), found.file, shown(address));
  }

  address({ file, version }: FoundFile): string {
    return this.#below(this.#path(file, version));
  }

  official({ file, version }: FoundFile): string {
    return `${this.#source.url.replace(/\/+$/, '')}/${this.#path(file, version)}`;
  }

  #path(file: string, version: string): string {
    const folder = this.#filled(this.#source.folder, version);
    return folder === '' ? file : `${folder}/${file}`;
  }

  /** Where a mirror has what upstream has at another host. */
  #onMirror(template: string): string {
    const { checksum } = this.#source;
    const isElsewhere = /^https?:/.test(template);
    if (this.#mirror === undefined || !isElsewhere) return template;
    if (checksum.kind === 'published' && checksum.at === template && checksum.on_mirror !== undefined)
      return checksum.on_mirror;
    throw new Failure(
      'preset_invalid',
      `the preset does not say where a mirror has "${template}": "on_mirror"`,
    );
  }

  #below(path: string): string {
    if (/^https?:/.test(path)) return path;
    return `${this.#mirror ?? this.#source.url.replace(/\/+$/, '')}/${path}`;
  }

  /**
   * Folders are named by what was asked for (`24.04`), also where the file has more (`24.04.3`). `{patch}` is part of a version
   * that was found; of one that was only asked for it is unknown.
   */
  #filled(template: string, found: string, file = ''): string {
    const version = this.#version === 'newest' ? found : this.#version;
    const values: Readonly<Record<string, string>> = {
      version,
      patch: '',
      branch: version.split('.').slice(0, 2).join('.'),
      arch: this.#arch,
      file,
    };
    return template.replace(/\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole);
  }

  async #page(address: string): Promise<string> {
    const known = this.#pages.get(address);
    if (known !== undefined) return known;
    requireTrusted(address, this.#source.mirror);
    const file = join(this.#place.scratch, 'page');
    await download({ url: address, file, bytesMax: pageBytesMax }, this.#place.signal);
    const text = readFileSync(file, 'latin1');
    this.#pages.set(address, text);
    return text;
  }
}
