/** `COPY` and `ADD`: what comes along, where it goes, and whose it is. */
import { closeSync, readSync } from 'node:fs';
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { constants, createGunzip, createZstdDecompress, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { type File, NotFound, type Sandbox } from '@squash/sdk';
import { tarEnd, tarHeader, tarPadding, type WrittenEntry } from '@squash/sdk/tar-writer';
import {
  type Context,
  contentOf,
  digestOf,
  type Item,
  lookedAt,
  opened,
  type Source,
  tarOf,
} from './context.ts';
import { type Instruction, jsonWords } from './dockerfile.ts';
import { parentOf } from './mounts.ts';
import { reading } from './plan.ts';
import { BuildProblem } from './problem.ts';
import { absolute, type StageState } from './stage.ts';
import { readWord, readWords } from './words.ts';

/** Of a file that `ADD` may unpack. */
const lookedAtBytes = 65_536;

export interface Copying {
  readonly line: number;
  /** What is copied from, as the words say; here-documents first. */
  readonly words: readonly string[];
  /** As it is said; a slash at its end means a directory. */
  readonly to: string;
  readonly documents: readonly Item[];
  readonly from: string | undefined;
  readonly chown: string | undefined;
  readonly mode: number | undefined;
  readonly unpacks: boolean;
}

/** @throws BuildProblem */
export function copyingOf(instruction: Instruction, state: StageState, escape: string): Copying {
  const { keyword, text, line, flags, documents } = instruction;
  const how = { escape, valueOf: state.valueOf };
  const flag = (wanted: string): string | undefined => {
    const value = flags.findLast(({ name }) => name === wanted)?.value;
    return value === undefined ? undefined : reading(line, () => readWord(value, how));
  };
  const all =
    jsonWords(text)?.map((word) => reading(line, () => readWord(word, how))) ??
    reading(line, () => readWords(text, how));
  const to = all.at(-1);
  const words = all.slice(0, -1).filter((word) => !word.startsWith('<<'));
  if (to === undefined || words.length + documents.length === 0)
    throw new BuildProblem('dockerfile_invalid', `${keyword} takes at least one source and a destination`, {
      line,
    });
  if (keyword === 'ADD' && text.startsWith('<<'))
    throw new BuildProblem(
      'dockerfile_unsupported',
      'ADD of a here-document is not supported: COPY takes one',
      { line },
    );
  const remote = words.find((word) => /^(https?|git|ssh|ftp):\/\/|^git@/.test(word));
  if (remote !== undefined)
    throw new BuildProblem(
      'dockerfile_unsupported',
      `${keyword} ${remote}: fetch it with RUN, under the policy of the build`,
      { line },
    );
  if (documents.length > 0 && flag('from') !== undefined)
    throw new BuildProblem('dockerfile_invalid', 'a here-document comes from no other stage', { line });
  const chmod = flag('chmod');
  if (chmod !== undefined && !/^[0-7]{3,4}$/.test(chmod))
    throw new BuildProblem(
      'dockerfile_unsupported',
      `${keyword} --chmod=${chmod}: only octal modes are supported`,
      { line },
    );
  const mode = chmod === undefined ? undefined : Number.parseInt(chmod, 8);
  const written = documents.map(({ name, isLiteral, text: body }): Item => {
    const content = Buffer.from(isLiteral ? body : reading(line, () => readBody(body, how)));
    return { name, type: 'file', mode: 0o644, mtimeMs: 0, size: content.length, target: '', content };
  });
  return {
    line,
    words,
    to,
    documents: written,
    from: flag('from'),
    chown: flag('chown'),
    mode,
    unpacks: keyword === 'ADD',
  };
}

/** Quotes are text in a here-document: only variables and escapes are read. */
function readBody(body: string, how: Parameters<typeof readWord>[1]): string {
  return readWord(
    body.replaceAll(/["']/g, (quote) => `${how.escape}${quote}`),
    how,
  );
}

export interface FromContext {
  readonly sources: readonly Source[];
  readonly digest: string;
}

/** What it takes from the context, with the digest of all of it. */
export async function findInContext(
  { words, documents, line, mode }: Copying,
  context: Context,
): Promise<FromContext> {
  const found = context.find(words, line);
  const written = documents.map((item): Source => ({ base: item.name, isDirectory: false, items: [item] }));
  const sources: Source[] = [];
  for (const source of [...found, ...written])
    sources.push({ ...withMode(source, mode), items: await lookedAt(withMode(source, mode).items) });
  const digests = sources.map(({ base, isDirectory, items }) => [base, isDirectory, digestOf(items)]);
  return { sources, digest: JSON.stringify(digests) };
}

function withMode(source: Source, mode: number | undefined): Source {
  if (mode === undefined) return source;
  return {
    ...source,
    items: source.items.map((item) => (item.type === 'symlink' ? item : { ...item, mode })),
  };
}

interface Target {
  readonly sandbox: Sandbox;
  readonly workdir: string;
  /** Then nobody's file can be anybody else's. */
  readonly hasOneId: boolean;
  readonly signal: AbortSignal;
}

export async function copyFromContext(
  copying: Copying,
  { sources }: FromContext,
  target: Target,
): Promise<void> {
  const owner = await ownerOf(copying, target);
  const isMany = sources.length > 1;
  for (const { base, isDirectory, items } of sources) {
    const [first] = items;
    if (isDirectory)
      await unpack(target, { directory: directoryOf(copying, target), tar: tarOf(items) }, owner);
    else if (first !== undefined && copying.unpacks && (await unpackArchive(first, copying, target)))
      continue;
    else if (first !== undefined) {
      const { directory, name } = await placeOf(copying, target, { base, isMany });
      await unpack(target, { directory, tar: tarOf([{ ...first, name }]) }, owner);
    }
  }
}

function directoryOf({ to }: Copying, { workdir }: Target): string {
  return absolute(workdir, to).replace(/(.)\/$/, '$1');
}

/** Where one file goes: into a directory that is there or that is meant, or to a name of its own. */
async function placeOf(
  { to, line }: Copying,
  { sandbox, workdir, signal }: Target,
  { base, isMany }: { readonly base: string; readonly isMany: boolean },
): Promise<{ readonly directory: string; readonly name: string }> {
  const path = absolute(workdir, to);
  const open = path.replace(/(.)\/$/, '$1');
  if (path.endsWith('/') || (await isDirectory(sandbox, open, signal)))
    return { directory: open, name: base };
  if (isMany)
    throw new BuildProblem('dockerfile_invalid', `several sources need a directory: "${to}/"`, { line });
  return { directory: parentOf(open), name: posix.basename(open) };
}

async function isDirectory(sandbox: Sandbox, path: string, signal: AbortSignal): Promise<boolean> {
  try {
    const { type } = await sandbox.files.stat(path, { signal, follow: true });
    return type === 'directory';
  } catch (error) {
    if (error instanceof NotFound) return false;
    throw error;
  }
}

interface Owner {
  readonly uid?: number;
  readonly gid?: number;
  readonly keep_owner?: boolean;
}

async function unpack(
  { sandbox, hasOneId, signal }: Target,
  { directory, tar }: { readonly directory: string; readonly tar: AsyncIterable<Uint8Array> },
  owner: Owner,
): Promise<void> {
  await sandbox.files.unpack(directory, tar, { parents: true, ...(!hasOneId && owner), signal });
}

/** `ADD` of an archive of this machine: its files, as they are in it. False: it is none. */
async function unpackArchive(item: Item, copying: Copying, target: Target): Promise<boolean> {
  if (typeof item.content !== 'string') return false;
  const kind = archiveKind(item.content);
  if (kind === undefined) return false;
  if (kind === 'other')
    throw new BuildProblem(
      'dockerfile_unsupported',
      `ADD ${item.name}: of archives only tar, also in gzip or zstd, are unpacked; COPY it and unpack it with RUN`,
      { line: copying.line },
    );
  if (copying.mode !== undefined) throw modeOfMany('ADD', copying);
  const file = Readable.from(contentOf(item));
  const tar = kind === 'tar' ? file : file.pipe(kind === 'gzip' ? createGunzip() : createZstdDecompress());
  file.on('error', (error) => tar.destroy(error));
  await unpack(
    target,
    { directory: directoryOf(copying, target), tar },
    copying.chown === undefined ? { keep_owner: true } : await ownerOf(copying, target),
  );
  return true;
}

function modeOfMany(what: string, { line }: Copying): BuildProblem {
  const message = `${what} --chmod of all that is in a directory or an archive is not supported: set it with RUN`;
  return new BuildProblem('dockerfile_unsupported', message, { line });
}

/** By what it begins with; a compressed file that holds no tar is copied as it is. */
function archiveKind(path: string): 'tar' | 'gzip' | 'zstd' | 'other' | undefined {
  const start = startOf(path);
  const hex = start.subarray(0, 6).toString('hex');
  if (isTar(start)) return 'tar';
  try {
    if (hex.startsWith('1f8b') && isTar(gunzipSync(start, { finishFlush: constants.Z_SYNC_FLUSH })))
      return 'gzip';
    const whole = { finishFlush: constants.ZSTD_e_flush };
    if (hex.startsWith('28b52ffd') && isTar(zstdDecompressSync(start, whole))) return 'zstd';
  } catch {
    return undefined; // It only begins like one.
  }
  return hex.startsWith('fd377a585a00') || hex.startsWith('425a68') ? 'other' : undefined;
}

function startOf(path: string): Buffer {
  const file = opened(path);
  try {
    const start = Buffer.alloc(lookedAtBytes);
    return start.subarray(0, readSync(file, start));
  } finally {
    closeSync(file);
  }
}

function isTar(start: Buffer): boolean {
  return start.subarray(257, 262).toString('latin1') === 'ustar';
}

/** Numbers as they are, names as the sandbox knows them; root where nobody is named. @throws BuildProblem */
async function ownerOf({ chown, line }: Copying, { sandbox, signal }: Target): Promise<Owner> {
  if (chown === undefined) return {};
  const [user = '', group] = chown.split(':', 2);
  const find = async (file: string, name: string, column: number): Promise<number> => {
    if (/^\d{1,5}$/.test(name)) return Number(name);
    const text = await sandbox.files.readText(file, { signal }).catch(() => '');
    const row = text
      .split('\n')
      .map((each) => each.split(':'))
      .find(([first]) => first === name);
    const id = row?.[column] ?? '';
    if (/^\d{1,5}$/.test(id)) return Number(id);
    throw new BuildProblem('build_failed', `--chown=${chown}: ${file} of the image has no "${name}"`, {
      line,
    });
  };
  const uid = user === '' ? 0 : await find('/etc/passwd', user, 2);
  if (group !== undefined && group !== '') return { uid, gid: await find('/etc/group', group, 2) };
  // As Docker has it: a user's name stands for its group, and a number for the group of this number.
  return { uid, gid: /^\d+$/.test(user) ? uid : await find('/etc/passwd', user, 3) };
}

/** From another stage or image, with owners as they are there unless somebody is named. */
export async function copyFromSandbox(copying: Copying, source: Sandbox, target: Target): Promise<void> {
  const { signal } = target;
  const found: { readonly path: string; readonly file: File }[] = [];
  for (const word of copying.words) found.push(...(await findInSandbox({ source, word, signal }, copying)));
  const named = copying.chown === undefined ? undefined : await ownerOf(copying, target);
  for (const { path, file } of found) {
    if (file.type === 'directory') {
      if (copying.mode !== undefined) throw modeOfMany('COPY --from', copying);
      await unpack(
        target,
        { directory: directoryOf(copying, target), tar: source.files.pack(path, { signal }) },
        named ?? { keep_owner: true },
      );
      continue;
    }
    const base = posix.basename(path);
    const { directory, name } = await placeOf(copying, target, { base, isMany: found.length > 1 });
    const mode = copying.mode ?? Number.parseInt(file.mode, 8);
    const entry = {
      name,
      type: 'file',
      mode,
      mtimeMs: Date.parse(file.modified_at),
      size: file.size,
      target: '',
    } as const;
    const tar = tarOfOne(entry, source.files.readParts(path, { signal }));
    await unpack(target, { directory, tar }, named ?? { uid: file.uid, gid: file.gid });
  }
}

async function* tarOfOne(
  entry: WrittenEntry,
  content: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, void> {
  yield tarHeader(entry);
  yield* content;
  yield tarPadding(entry.size);
  yield tarEnd();
}

async function findInSandbox(
  { source, word, signal }: { readonly source: Sandbox; readonly word: string; readonly signal: AbortSignal },
  { line, from = '' }: Copying,
): Promise<readonly { readonly path: string; readonly file: File }[]> {
  const path = absolute('/', word).replace(/(.)\/$/, '$1');
  const found: { path: string; file: File }[] = [];
  if (/[*?[]/.test(path)) {
    for await (const file of source.files.glob('/', path.slice(1), { signal })) {
      const name = `/${file.path}`;
      found.push({ path: name, file: await source.files.stat(name, { follow: true, signal }) });
    }
  } else {
    const file = await source.files.stat(path, { follow: true, signal }).catch((error: unknown) => {
      if (!(error instanceof NotFound)) throw error;
    });
    if (file !== undefined) found.push({ path, file });
  }
  if (found.length > 0) return found;
  throw new BuildProblem('build_failed', `"${word}" is not in "${from}"`, { line });
}
