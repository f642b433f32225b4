/**
 * The context of a build: a directory of this machine. Nothing outside of it is read, whatever its links and the Dockerfile say, and
 * nothing that `.dockerignore` names.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  type Stats,
} from 'node:fs';
import { join, matchesGlob, normalize, posix, relative, sep } from 'node:path';
import dockerignore, { type Ignore } from '@balena/dockerignore';
import { tarEnd, tarHeader, tarPadding } from '@squash/sdk/tar-writer';
import { BuildProblem } from './problem.ts';

/** The package is a function; its types say that it has one. */
const ignoring = dockerignore as unknown as typeof dockerignore.default;

/** Entries of one COPY. */
const entriesMax = 1_000_000;

/** Of a Dockerfile or `.dockerignore`. */
const textBytesMax = 1_048_576;

/** What a COPY takes along, under the name that it has at its destination. */
export interface Item {
  /** Relative to the destination. */
  readonly name: string;
  readonly type: 'file' | 'directory' | 'symlink';
  readonly mode: number;
  readonly mtimeMs: number;
  readonly size: number;
  /** Of a symlink. */
  readonly target: string;
  /** Of a file: where it lies here, or what it holds. */
  readonly content: string | Buffer;
  /** Of a file whose content was looked at: whoever reads it again gets the same, or an error. */
  readonly sha256?: string;
}

/** One source, as its word names it. */
export interface Source {
  /** The last part of its name. */
  readonly base: string;
  readonly isDirectory: boolean;
  /** Of a directory all that is in it, by names relative to it; of a file itself, by its name. */
  readonly items: readonly Item[];
}

export class Context {
  readonly #root: string;
  readonly #ignored: Ignore;
  readonly #mayReinclude: boolean;

  /** @throws BuildProblem */
  constructor(directory: string, dockerfile: string) {
    try {
      this.#root = realpathSync(directory);
      readdirSync(this.#root);
    } catch (cause) {
      throw new BuildProblem('context_invalid', `can't read the context "${directory}": ${whyNot(cause)}`, {
        cause,
      });
    }
    const patterns = (
      textOf(`${dockerfile}.dockerignore`) ??
      textOf(join(this.#root, '.dockerignore')) ??
      ''
    ).split(/\r?\n/);
    this.#ignored = ignoring({ ignorecase: false }).add(patterns);
    this.#mayReinclude = patterns.some((each) => each.trim().startsWith('!'));
  }

  /** @throws BuildProblem where there is none, or it is not in the context */
  find(words: readonly string[], line: number): readonly Source[] {
    return words.flatMap((word) => {
      const found = this.#matches(word, line);
      if (found.length === 0) throw missing(word, line);
      return found.map((name) => this.#source(name, line));
    });
  }

  /** Whether a source is there at all. @throws BuildProblem */
  check(word: string, line: number): void {
    if (this.#matches(word, line).length === 0) throw missing(word, line);
  }

  #matches(word: string, line: number): readonly string[] {
    const name = normalize(`./${word}`).replace(/\/$/, '');
    if (name === '..' || name.startsWith('../'))
      throw new BuildProblem('context_invalid', `"${word}" leads out of the context`, { line });
    if (!/[*?[\\]/.test(name)) return this.#isThere(name) ? [name] : [];
    const parts = name.split('/');
    let found = ['.'];
    for (const part of parts) found = found.flatMap((each) => this.#below(each, part));
    return found.sort();
  }

  #below(directory: string, pattern: string): string[] {
    let names: string[];
    try {
      names = readdirSync(join(this.#root, directory));
    } catch {
      return []; // No directory.
    }
    return names
      .filter((name) => matchesGlob(name, pattern))
      .map((name) => (directory === '.' ? name : `${directory}/${name}`))
      .filter((name) => this.#isThere(name));
  }

  #isThere(name: string): boolean {
    if (name !== '.' && this.#isIgnored(name) && !this.#mayReinclude) return false;
    const facts = lstatSync(join(this.#root, name), { throwIfNoEntry: false });
    return facts !== undefined && (name === '.' || facts.isDirectory() || !this.#isIgnored(name));
  }

  #isIgnored(name: string): boolean {
    return this.#ignored.ignores(name);
  }

  #source(name: string, line: number): Source {
    // A link that a word names is followed, as far as it stays in the context.
    const path = realpathSync(join(this.#root, name));
    const inside = relative(this.#root, path);
    if (inside === '..' || inside.startsWith(`..${sep}`))
      throw new BuildProblem('context_invalid', `"${name}" is a link that leads out of the context`, {
        line,
      });
    const facts = lstatSync(path);
    const isHidden = inside !== '' && inside !== name && this.#isIgnored(inside);
    if (isHidden && !(this.#mayReinclude && facts.isDirectory())) throw missing(name, line);
    const base = name === '.' ? '' : posix.basename(name);
    if (!facts.isDirectory()) return { base, isDirectory: false, items: [this.#item(inside, base, line)] };
    const items: Item[] = [];
    this.#walk({ from: inside, below: '', items, line });
    return { base, isDirectory: true, items };
  }

  #walk(walk: {
    readonly from: string;
    readonly below: string;
    readonly items: Item[];
    readonly line: number;
  }): void {
    const { from, below, items, line } = walk;
    for (const each of readdirSync(join(this.#root, from, below)).sort()) {
      const name = below === '' ? each : `${below}/${each}`;
      const inContext = from === '' ? name : `${from}/${name}`;
      const facts = lstatSync(join(this.#root, inContext), { throwIfNoEntry: false });
      const isIgnored = this.#isIgnored(inContext);
      if (isIgnored && !(this.#mayReinclude && facts?.isDirectory() === true)) continue;
      const before = items.length;
      if (!isIgnored) items.push(this.#item(inContext, name, line));
      if (items.length > entriesMax)
        throw new BuildProblem('context_invalid', `there are more than ${entriesMax} entries`, { line });
      if (facts?.isDirectory() !== true) continue;
      this.#walk({ from, below: name, items, line });
      // One that is ignored is there for what is taken again below it.
      if (isIgnored && items.length > before) items.splice(before, 0, this.#item(inContext, name, line));
    }
  }

  #item(inContext: string, name: string, line: number): Item {
    const path = join(this.#root, inContext);
    const facts = lstatSync(path, { throwIfNoEntry: false });
    // A name that is not UTF-8 comes with this sign in its place.
    if (facts === undefined || inContext.includes('\uFFFD'))
      throw new BuildProblem('context_invalid', `"${inContext}" can't be read`, { line });
    const type = typeOf(facts);
    if (type === undefined)
      throw new BuildProblem('context_invalid', `"${inContext}" is no file, directory or symlink`, { line });
    const target = type === 'symlink' ? readlinkSync(path) : '';
    const size = type === 'file' ? facts.size : 0;
    const mtimeMs = Math.floor(facts.mtimeMs / 1000) * 1000;
    return {
      name,
      type,
      mode: facts.mode & 0o7777,
      mtimeMs,
      size,
      target,
      content: type === 'file' ? path : '',
    };
  }
}

function missing(word: string, line: number): BuildProblem {
  const message = `"${word}" is not in the context, or .dockerignore names it`;
  return new BuildProblem('context_invalid', message, { line });
}

/** In words, of what the file system says. */
export function whyNot(cause: unknown): string {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  if (code === 'ENOENT') return 'there is none';
  if (code === 'ENOTDIR') return 'it is no directory';
  if (code === 'EISDIR') return 'it is a directory';
  return code === 'EACCES' ? 'this user may not read it' : String(cause);
}

function typeOf(facts: Stats): Item['type'] | undefined {
  if (facts.isFile()) return 'file';
  if (facts.isDirectory()) return 'directory';
  return facts.isSymbolicLink() ? 'symlink' : undefined;
}

/**
 * Of a file whose name is known without anybody having given it; undefined where there is none.
 * @throws BuildProblem where it is no file: a FIFO would never be opened, a device never end
 */
export function textOf(path: string): string | undefined {
  let file: number;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    return undefined;
  }
  try {
    const facts = fstatSync(file);
    if (!facts.isFile()) throw unread(path, 'it is no file');
    if (facts.size > textBytesMax) throw unread(path, `it has more than ${textBytesMax} bytes`);
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw cause instanceof BuildProblem ? cause : unread(path, whyNot(cause));
  } finally {
    closeSync(file);
  }
}

function unread(path: string, why: string): BuildProblem {
  return new BuildProblem('context_invalid', `can't read "${path}": ${why}`);
}

/** A file is opened without following what may stand there, or above it, by now. */
export function opened(path: string): number {
  // O_NONBLOCK: a FIFO that has taken its place is no wait.
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  if (fstatSync(file).isFile() && readlinkSync(`/proc/self/fd/${file}`) === path) return file;
  closeSync(file);
  throw new BuildProblem('context_invalid', `"${path}" is no file any more`);
}

/** @throws BuildProblem where it is not what it was, at the latest behind its last piece */
export async function* contentOf({ name, content, size, sha256 }: Item): AsyncGenerator<Buffer, void, void> {
  const hash = createHash('sha256');
  let left = size;
  const pieces = typeof content === 'string' ? createReadStream(content, { fd: opened(content) }) : [content];
  for await (const piece of pieces as AsyncIterable<Buffer>) {
    left -= piece.length;
    if (left < 0) break;
    hash.update(piece);
    yield piece;
  }
  if (left !== 0 || (sha256 !== undefined && hash.digest('hex') !== sha256))
    throw new BuildProblem('context_invalid', `"${name}" changed while it was read`);
}

/** With what their files hold. */
export async function lookedAt(items: readonly Item[]): Promise<readonly Item[]> {
  const found: Item[] = [];
  for (const item of items)
    found.push(item.type === 'file' ? { ...item, sha256: await sha256Of(item) } : item);
  return found;
}

async function sha256Of(item: Item): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of contentOf(item)) hash.update(piece);
  return hash.digest('hex');
}

/** The same for the same names, modes and contents, whenever they were written; of items that were looked at. */
export function digestOf(items: readonly Item[]): string {
  const facts = items.map(({ name, type, mode, size, target, sha256 }) => [
    name,
    type,
    mode,
    size,
    target,
    sha256,
  ]);
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex');
}

/** As a tar. @throws BuildProblem where a file changes meanwhile */
export async function* tarOf(items: readonly Item[]): AsyncGenerator<Uint8Array, void, void> {
  for (const item of items) {
    yield tarHeader(item);
    if (item.type !== 'file') continue;
    yield* contentOf(item);
    yield tarPadding(item.size);
  }
  yield tarEnd();
}
