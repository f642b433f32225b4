/**
 * The files of a sandbox. A path is absolute, and is what it would be to a program in there. One whose bytes are no UTF-8 is given as
 * bytes. `as` does it as that user (`UID`, `UID:GID` or a name), else it is done as root.
 */
import { readWhole } from './answers.ts';
import { toBase64 } from './bytes.ts';
import type { Connection, Signal } from './connection.ts';
import { NotFound } from './errors.ts';
import { dataOf, follow } from './follow.ts';
import { downloadTree, uploadTree } from './local-tree.ts';
import { everyItem } from './pages.ts';
import type { File, FileEvent, FileMatches, Operations } from './records.gen.ts';
import type { Upload } from './transport.ts';

export type FilePath = string | Uint8Array;

type Query<Id extends keyof Operations> = Omit<Operations[Id]['query'], 'path' | 'path_base64' | 'cursor'>;
type Body<Id extends keyof Operations> = Omit<
  NonNullable<Operations[Id]['body']>,
  'path' | 'from' | 'to' | 'target'
>;

export interface ReadOptions extends Query<'file.read'>, Signal {
  /** The first byte and the one behind the last; to the end without it. */
  readonly range?: readonly [begin: number, end?: number];
  /** More is an error; 1 GiB unless given. */
  readonly bytes_max?: number;
}

export interface WriteOptions extends Query<'file.write'>, Signal {
  /** Only while the file has this `etag`; `*`: only where there is one. */
  readonly if_match?: string;
  /** `*`: only where there is none. */
  readonly if_none_match?: string;
}

export type Unpacked = Operations['file.unpack']['answer'];

/** `overflow`: changes were lost, look at everything again. */
export type WatchEvent =
  | ({ readonly type: 'change' } & FileEvent)
  | { readonly type: 'watching' | 'overflow' };

const readBytesMax = 1_073_741_824;
/** Copying, packing and removing many files takes a while before anything is answered. */
const treeMsMax = 600_000;

export class Files {
  readonly #connection: Connection;
  readonly #path: { readonly id: string };

  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection;
    this.#path = { id: sandbox };
  }

  /** `file.read`: all of a file, or a range of it. @throws NotFound, ProtocolError where it is longer than `bytes_max` */
  async read(path: FilePath, { bytes_max: bytesMax, ...options }: ReadOptions = {}): Promise<Uint8Array> {
    return await readWhole(await this.#open(path, options), bytesMax ?? readBytesMax);
  }

  /** `file.read`: a file of UTF-8; other bytes become U+FFFD. */
  async readText(path: FilePath, options: ReadOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.read(path, options));
  }

  /** `file.read`: a file of any length, as it comes. */
  async *readParts(path: FilePath, options: ReadOptions = {}): AsyncGenerator<Uint8Array, void, void> {
    yield* (await this.#open(path, options)).body;
  }

  async #open(path: FilePath, { signal, range, ...query }: Omit<ReadOptions, 'bytes_max'>) {
    const headers =
      range === undefined ? {} : { range: `bytes=${range[0]}-${range[1] === undefined ? '' : range[1] - 1}` };
    const options = { path: this.#path, query: { ...query, ...named(path) }, headers, signal };
    return await this.#connection.open('file.read', options);
  }

  /** `file.write`: replaces the file when all of it has come, or makes it. A stream goes out as it comes. @throws NotFound, Conflict, LimitReached */
  async write(path: FilePath, data: Upload, options: WriteOptions = {}): Promise<File> {
    const { signal, if_match: match, if_none_match: noneMatch, ...query } = options;
    const headers = {
      ...(match !== undefined && { 'if-match': match }),
      ...(noneMatch !== undefined && { 'if-none-match': noneMatch }),
    };
    return await this.#connection.call('file.write', {
      path: this.#path,
      query: { ...query, ...named(path) },
      upload: data,
      headers,
      signal,
    });
  }

  /** `file.change`: mode and owner. */
  async change(
    path: FilePath,
    { signal, as, ...body }: Body<'file.change'> & Query<'file.change'> & Signal,
  ): Promise<File> {
    const query = { ...named(path), ...user(as) };
    return await this.#connection.call('file.change', { path: this.#path, query, body, signal });
  }

  /** `file.stat`: what stands there, a symlink itself unless `follow`. @throws NotFound */
  async stat(path: FilePath, { signal, ...query }: Query<'file.stat'> & Signal = {}): Promise<File> {
    return await this.#connection.call('file.stat', {
      path: this.#path,
      query: { ...query, ...named(path) },
      signal,
    });
  }

  /** Whether anything stands there. */
  async exists(path: FilePath, options: Query<'file.stat'> & Signal = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      if (error instanceof NotFound && error.code === 'file_not_found') return false;
      throw error;
    }
  }

  /** `file.list`: a directory, `depth` levels of it, in the order of the names. */
  list(
    path: FilePath,
    { signal, ...query }: Query<'file.list'> & Signal = {},
  ): AsyncGenerator<File, void, void> {
    const asked = { ...query, ...named(path) };
    return everyItem(this.#connection, 'file.list', { path: this.#path, query: asked, signal });
  }

  /** `file.glob`: what lies below `path` and has a name like `pattern`. Paths are relative to it. */
  glob(
    path: FilePath,
    pattern: string,
    { signal, ...query }: Omit<Query<'file.glob'>, 'pattern'> & Signal = {},
  ): AsyncGenerator<File, void, void> {
    const asked = { ...query, pattern, ...named(path) };
    return everyItem(this.#connection, 'file.glob', { path: this.#path, query: asked, signal });
  }

  /** `file.search`: lines that have the text, or match it where `regex` says so. */
  async search(
    path: FilePath,
    text: string,
    { signal, ...query }: Omit<Query<'file.search'>, 'text'> & Signal = {},
  ): Promise<FileMatches> {
    const asked = { ...query, text, ...named(path) };
    const takesMs = treeMsMax;
    return await this.#connection.call('file.search', { path: this.#path, query: asked, signal, takesMs });
  }

  /** `file.make_directory` */
  async makeDirectory(
    path: FilePath,
    { signal, as, ...options }: Body<'file.make_directory'> & Query<'file.make_directory'> & Signal = {},
  ): Promise<File> {
    const body = { ...options, path: inBody(path) };
    return await this.#connection.call('file.make_directory', {
      path: this.#path,
      query: user(as),
      body,
      signal,
    });
  }

  /** `file.move` */
  async move(
    from: FilePath,
    to: FilePath,
    { signal, as, ...options }: Body<'file.move'> & Query<'file.move'> & Signal = {},
  ): Promise<File> {
    const body = { ...options, from: inBody(from), to: inBody(to) };
    return await this.#connection.call('file.move', { path: this.#path, query: user(as), body, signal });
  }

  /** `file.copy` */
  async copy(
    from: FilePath,
    to: FilePath,
    { signal, as, ...options }: Body<'file.copy'> & Query<'file.copy'> & Signal = {},
  ): Promise<File> {
    const body = { ...options, from: inBody(from), to: inBody(to) };
    const takesMs = treeMsMax;
    return await this.#connection.call('file.copy', {
      path: this.#path,
      query: user(as),
      body,
      signal,
      takesMs,
    });
  }

  /** `file.link`: a symlink at `path`, or with `hard` another name of the file. */
  async link(
    path: FilePath,
    target: string,
    { signal, as, ...options }: Body<'file.link'> & Query<'file.link'> & Signal = {},
  ): Promise<File> {
    const body = { ...options, path: inBody(path), target };
    return await this.#connection.call('file.link', { path: this.#path, query: user(as), body, signal });
  }

  /** `file.remove`: with `recursive` a directory with all that is in it. @throws NotFound, Conflict */
  async remove(path: FilePath, { signal, ...query }: Query<'file.remove'> & Signal = {}): Promise<void> {
    const options = { path: this.#path, query: { ...query, ...named(path) }, signal, takesMs: treeMsMax };
    await this.#connection.call('file.remove', options);
  }

  /**
   * `file.watch`: what changes in a directory, until it is gone. Behind `watching` nothing is missed; where the connection breaks there is an
   * `overflow`.
   */
  async *watch(
    path: FilePath,
    { signal, ...query }: Query<'file.watch'> & Signal = {},
  ): AsyncGenerator<WatchEvent, void, void> {
    let hasBroken = false;
    const options = { path: this.#path, query: { ...query, ...named(path) }, signal };
    const events = follow(this.#connection, 'file.watch', {
      ...options,
      isLast: ({ name }) => name === 'end',
      onBreak: () => {
        hasBroken = true;
      },
    });
    for await (const event of events) {
      if (hasBroken) yield { type: 'overflow' };
      hasBroken = false;
      if (event.name === 'change') yield { type: 'change', ...(dataOf(event) as FileEvent) };
      if (event.name === 'watching' || event.name === 'overflow') yield { type: event.name };
    }
  }

  /** `file.pack`: a directory as a tar. */
  async *pack(
    path: FilePath,
    { signal, ...query }: Query<'file.pack'> & Signal = {},
  ): AsyncGenerator<Uint8Array, void, void> {
    const options = { path: this.#path, query: { ...query, ...named(path) }, signal, takesMs: treeMsMax };
    yield* (await this.#connection.open('file.pack', options)).body;
  }

  /** `file.unpack`: a tar into a directory; nothing of it lands anywhere else. @throws BadRequest, LimitReached */
  async unpack(
    path: FilePath,
    tar: Exclude<Upload, string>,
    { signal, ...query }: Query<'file.unpack'> & Signal = {},
  ): Promise<Unpacked> {
    return await this.#connection.call('file.unpack', {
      path: this.#path,
      query: { ...query, ...named(path) },
      upload: tar,
      headers: { 'content-type': 'application/x-tar' },
      signal,
      takesMs: treeMsMax,
    });
  }

  /** A directory of this machine, with files, directories and symlinks, into one of the sandbox, which is made where it is missing. */
  async uploadDirectory(
    local: string,
    path: FilePath,
    options: Query<'file.unpack'> & Signal = {},
  ): Promise<Unpacked> {
    return await this.unpack(path, uploadTree(local), { parents: true, ...options });
  }

  /**
   * A directory of the sandbox into a new one of this machine; returns how many entries it has. It has its name when all of it is there, and
   * nothing of it lands anywhere else, whatever the sandbox says.
   */
  async downloadDirectory(
    path: FilePath,
    local: string,
    options: Query<'file.pack'> & Signal = {},
  ): Promise<number> {
    return await downloadTree(this.pack(path, options), local);
  }
}

function named(path: FilePath): { readonly path: string } | { readonly path_base64: string } {
  return typeof path === 'string' ? { path } : { path_base64: toBase64(path) };
}

function inBody(path: FilePath): string | { readonly base64: string } {
  return typeof path === 'string' ? path : { base64: toBase64(path) };
}

function user(as: string | undefined): { readonly as?: string } {
  return as === undefined ? {} : { as };
}
