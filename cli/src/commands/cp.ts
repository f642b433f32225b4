/**
 * `squash cp`: a file or a directory into a sandbox, out of it, or from one to another. A directory travels as a tar.
 *
 * What comes out of a sandbox is written as if by an enemy: into a directory that is new, each name from its directory's descriptor,
 * through no symlink, without owners and set-id bits. A file has its name when all of it is there.
 */
import { randomBytes } from 'node:crypto';
import { link, open, rename, rmdir, stat, unlink } from 'node:fs/promises';
import { basename, join, posix, resolve } from 'node:path';
import type { FileInfo, Unpacked } from '@squash/contract/file';
import { filesPath } from '../client/client.ts';
import { openImage } from '../client/image-source.ts';
import { SquashError } from '@squash/sdk/errors';
import { readTar, type TarEntry } from '@squash/sdk/tar-reader';
import type { Call } from '../command.ts';
import { CliFailure, errorCode, exitCodes, Failure, fileProblem, usageFailure } from '../failure.ts';
import { withProgress } from '../output/progress.ts';
import { formatBytes, printJson, printNote, standardOutput, visible } from '../output/print.ts';
import { type RemoteWord, remoteOf } from '../remote-word.ts';
import { copiedMode, LocalTree } from '../sync/local-tree.ts';
import { sendDirectory } from '../sync/send-directory.ts';
import { parentOf, shown } from '../sync/tree.ts';
import { openOutputSink } from '../terminal/output-sink.ts';

export async function run(call: Call): Promise<number> {
  const [from = '', to = ''] = call.positionals;
  const source = remoteOf(from);
  const target = remoteOf(to);
  if (source === undefined && target === undefined) {
    throw usageFailure('at least one of the two is ID:/PATH in a sandbox');
  }
  if (source !== undefined && target !== undefined) await between(call, source, target);
  else if (target !== undefined) await upload(call, from, target);
  else if (source !== undefined) await download(call, source, to);
  return exitCodes.ok;
}

async function statOf(call: Call, { id, path }: RemoteWord): Promise<FileInfo | undefined> {
  try {
    return await call.client.get<FileInfo>(filesPath(id, ['stat'], { path, follow: 'true' }));
  } catch (cause) {
    if (cause instanceof CliFailure && cause.code === 'file_not_found') return undefined;
    throw cause;
  }
}

/** Under its own name in a directory that is there. */
async function placeIn(call: Call, target: RemoteWord, name: string): Promise<string> {
  const there = await statOf(call, target);
  if (there?.type !== 'directory') return target.path;
  if (name === '-') throw usageFailure('standard input needs the name of a file');
  return posix.join(target.path, name);
}

async function upload(call: Call, from: string, target: RemoteWord): Promise<void> {
  const facts =
    from === '-' ? undefined : await stat(from).catch((cause: unknown) => unreadable(from, cause));
  const path = await placeIn(call, target, from === '-' ? '-' : basename(resolve(from)));
  const label = visible(basename(path));
  if (facts?.isDirectory() !== true) {
    const { stream, bytes } = await openImage(from);
    const mode = facts === undefined ? undefined : (facts.mode & 0o777).toString(8).padStart(3, '0');
    const address = filesPath(target.id, [], { path, mode });
    const made = await call.client.upload<FileInfo>(address, withProgress(stream, { label, bytes }), bytes);
    if (call.json) printJson(made);
    return;
  }
  const unpacked = await sendDirectory(call.client, from, { id: target.id, path, label });
  if (call.json) printJson(unpacked);
  else printNote(`${unpacked.entries} entries, ${formatBytes(unpacked.bytes)}`);
}

async function download(call: Call, source: RemoteWord, to: string): Promise<void> {
  const found = await call.client.get<FileInfo>(
    filesPath(source.id, ['stat'], { path: source.path, follow: 'true' }),
  );
  const name = posix.basename(source.path);
  const isInto =
    to !== '-' &&
    (await stat(to).then(
      (facts) => facts.isDirectory(),
      () => false,
    ));
  if (isInto && name === '') throw usageFailure('name what the copy is to be called');
  const target = isInto ? join(to, name) : to;
  const label = visible(name);
  if (found.type !== 'directory') {
    const response = await call.client.open(filesPath(source.id, [], { path: source.path }), {});
    const length = response.headers.get('content-length');
    const body = withProgress(response.body(), {
      label,
      bytes: length === undefined ? undefined : Number(length),
    });
    await save(body, target, call.flags.isSet('force'));
    if (call.json) printJson(found);
    return;
  }
  if (to === '-') throw usageFailure('a directory needs a place; GET …/files/archive sends a tar');
  const response = await call.client.open(filesPath(source.id, ['archive'], { path: source.path }), {});
  const body = withProgress(response.body(), { label, bytes: undefined });
  const entries = await unpack(body, target, found);
  if (call.json) printJson({ ...found, entries });
  else printNote(`${entries} entries`);
}

/** Nothing of it is looked at here: the sandbox that gets it unpacks what the other sends as it would anybody's. */
async function between(call: Call, source: RemoteWord, target: RemoteWord): Promise<void> {
  const { client } = call;
  const found = await client.get<FileInfo>(
    filesPath(source.id, ['stat'], { path: source.path, follow: 'true' }),
  );
  const name = posix.basename(source.path);
  const path = await placeIn(call, target, name);
  const label = visible(name);
  const isDirectory = found.type === 'directory';
  if (source.id === target.id) {
    const body = { from: source.path, to: path, recursive: isDirectory };
    const made = await client.post<FileInfo>(filesPath(source.id, ['copy']), body);
    if (call.json) printJson(made);
    return;
  }
  const more = isDirectory ? ['archive'] : [];
  const response = await client.open(filesPath(source.id, more, { path: source.path }), {});
  const length = response.headers.get('content-length');
  const bytes = length === undefined ? undefined : Number(length);
  const query = isDirectory ? { path, parents: 'true' } : { path, mode: found.mode.slice(-3) };
  const body = withProgress(response.body(), { label, bytes });
  const made = await client.upload<FileInfo | Unpacked>(filesPath(target.id, more, query), body, bytes);
  if (call.json) printJson(made);
  else if ('entries' in made) printNote(`${made.entries} entries, ${formatBytes(made.bytes)}`);
}

async function save(body: AsyncIterable<Buffer>, file: string, replaces: boolean): Promise<void> {
  if (file === '-') {
    const sink = openOutputSink(standardOutput);
    try {
      for await (const part of body) await sink.write(part);
    } finally {
      sink.close();
    }
    return;
  }
  const partial = `${file}.${randomBytes(4).toString('hex')}.part`;
  const handle = await open(partial, 'wx').catch((cause: unknown) => unwritable(file, cause));
  try {
    try {
      for await (const part of body)
        await handle.appendFile(part).catch((cause: unknown) => unwritable(file, cause));
    } finally {
      await handle.close();
    }
    // A link never replaces, whoever made the file meanwhile.
    await (replaces ? rename(partial, file) : link(partial, file)).catch((cause: unknown) =>
      unwritable(file, cause),
    );
  } finally {
    // It is gone already where it was renamed.
    await unlink(partial).catch(() => undefined);
  }
}

/** Into a directory that is made for it. Returns how many entries there were. */
async function unpack(body: AsyncIterable<Buffer>, target: string, found: FileInfo): Promise<number> {
  using local = makeTree(target);
  let entries = 0;
  try {
    const directories = new Map<string, TarEntry>();
    const links = new Map<string, TarEntry>();
    for await (const entry of readTar(body, 'latin1')) {
      entries += 1;
      const path = entry.parts.join('/');
      const { mode, mtimeS, content } = entry;
      const isLost = parentOf(path) !== '' && !directories.has(parentOf(path));
      if (isLost) throw new Failure('unsafe', `"${shown(path)}" stands in no directory of the archive`);
      if (entry.type === 'file') {
        await local.writeFile(path, { mode: copiedMode(mode), mtimeMs: mtimeS * 1_000, content });
      } else if (entry.type === 'directory') {
        local.makeDirectory(path);
        directories.set(path, entry);
      } else links.set(path, entry);
    }
    // What would have been in the way before.
    for (const [path, link] of links) local.makeLink(path, link.target);
    for (const [path, { mode, mtimeS }] of [...directories].toReversed())
      local.finishDirectory(path, copiedMode(mode), mtimeS * 1_000);
    local.finishDirectory('', copiedMode(Number.parseInt(found.mode, 8)) | 0o700);
    return entries;
  } catch (cause) {
    if (entries === 0) await rmdir(target).catch(() => undefined);
    if (cause instanceof CliFailure) throw cause;
    const isArchive = cause instanceof Failure || cause instanceof SquashError;
    const code = isArchive ? 'archive_invalid' : 'file_unwritable';
    const why = isArchive ? visible(cause.message) : fileProblem(cause);
    throw new CliFailure(code, `"${visible(target)}" is not whole: ${why}`);
  }
}

function makeTree(target: string): LocalTree {
  try {
    return LocalTree.make(target);
  } catch (cause) {
    if (cause instanceof CliFailure) throw cause;
    return unwritable(target, cause);
  }
}

function unwritable(file: string, cause: unknown): never {
  if (errorCode(cause) === 'EEXIST') throw new CliFailure('file_exists', `"${visible(file)}" exists`);
  throw new CliFailure('file_unwritable', `can't write "${visible(file)}": ${fileProblem(cause, true)}`);
}

function unreadable(file: string, cause: unknown): never {
  throw new CliFailure('file_unreadable', `can't read "${file}": ${fileProblem(cause)}`);
}
