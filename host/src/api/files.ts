/**
 * `file.*`: ranges, conditions and pages are HTTP's affair and decided here; what a sandbox named is only ever sent in a body.
 */
import { Buffer } from 'node:buffer';
import { AppError } from '@squash/contract/errors';
import type { FileInfo, FileMatchInfo, FilePage } from '@squash/contract/file';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type { fileOperations } from '@squash/contract/operations/files';
import type { Engine } from '../engine/engine.ts';
import type {
  FileListing,
  FilesPage,
  FileStat,
  FileWatching,
  GuestFilePath,
  Place,
} from '../engine/files.ts';
import { Places } from '../http/places.ts';
import { empty, json, type Reply } from '../http/reply.ts';
import type { Handler, HandlersOf } from '../http/router.ts';
import { bodyChunks } from '../http/upload.ts';
import { conditionOf, etagOf, readHeaders, wantedRange } from './file-conditions.ts';

type FileOperations = typeof fileOperations;
type Files = Engine['files'];
type HandlerOf<Id extends keyof FileOperations> = Handler<FileOperations[Id]>;

export function fileHandlers({ files }: Engine): HandlersOf<FileOperations> {
  return {
    'file.read': reading(files),
    'file.write': writing(files),
    'file.change': async ({ params, query, body, header, signal }) => {
      checkUnconditional(header);
      const { recursive, uid, gid, size, modified_at: modifiedAt } = body;
      const place = placeOf(params.id, query);
      const change = {
        recursive,
        ...modeOf(body),
        ...ownerOf({ uid, gid }),
        ...(size === undefined ? {} : { size }),
        ...(modifiedAt === undefined ? {} : { mtimeMs: Date.parse(modifiedAt) }),
      };
      return answer(place.path, await files.change(place, change, signal));
    },
    'file.remove': async ({ params, query, header, signal }) => {
      checkUnconditional(header);
      await files.remove(placeOf(params.id, query), query.recursive === true, signal);
      return empty;
    },
    'file.stat': async ({ params, query }) => {
      const place = placeOf(params.id, query);
      return answer(place.path, await files.stat(place, query.follow === true));
    },
    'file.list': async ({ params, query, signal }) =>
      page(
        await files.list(placeOf(params.id, query), { ...listing(query), depth: query.depth ?? 1 }, signal),
      ),
    'file.glob': async ({ params, query, signal }) => {
      const depth = limits.fileDepthMax;
      const found = { ...listing(query), depth, pattern: query.pattern };
      return page(await files.list(placeOf(params.id, query), found, signal));
    },
    'file.search': searching(files),
    ...placingHandlers(files),
    'file.watch': watching(files),
    'file.pack': packing(files),
    'file.unpack': async ({ params, query, header, incoming }) => {
      checkWhole(header);
      const extraction = {
        createParents: query.parents === true,
        entriesMax: query.entries_max ?? limits.archiveEntriesMax,
        ...(query.bytes_max === undefined ? {} : { bytesMax: query.bytes_max }),
        ...(query.keep_owner === true ? { owner: 'keep' as const } : ownerOf(query)),
      };
      return json(await files.unpack(placeOf(params.id, query), bodyChunks(incoming), extraction));
    },
  };
}

/** What makes an entry or gives one another place. */
function placingHandlers(
  files: Files,
): Pick<HandlersOf<FileOperations>, 'file.make_directory' | 'file.move' | 'file.copy' | 'file.link'> {
  return {
    'file.make_directory': async ({ params, query, body }) => {
      const place = { id: params.id, path: pathOf(body.path), ...asUser(query) };
      const made = { createParents: body.parents, ...modeOf(body), ...ownerOf(body) };
      return answer(place.path, await files.makeDirectory(place, made));
    },
    'file.move': async ({ params, query, body, signal }) => {
      const from = { id: params.id, path: pathOf(body.from), ...asUser(query) };
      const to = pathOf(body.to);
      const placing = { createParents: body.parents, exclusive: !body.overwrite, signal };
      return answer(to, await files.move(from, to, placing));
    },
    'file.copy': async ({ params, query, body, signal }) => {
      const from = { id: params.id, path: pathOf(body.from), ...asUser(query) };
      const to = pathOf(body.to);
      const placing = { createParents: body.parents, exclusive: !body.overwrite, signal };
      return answer(to, await files.copy(from, to, { ...placing, recursive: body.recursive }));
    },
    'file.link': async ({ params, query, body }) => {
      const place = { id: params.id, path: pathOf(body.path), ...asUser(query) };
      if (body.hard && !body.target.startsWith('/')) {
        throw new AppError('invalid_request', 'target: with `hard` an absolute path');
      }
      const made = { isHard: body.hard, createParents: body.parents };
      return answer(place.path, await files.link(place, body.target, made));
    },
  };
}

function packing(files: Files): HandlerOf<'file.pack'> {
  return async ({ params, query, signal, incoming }) => {
    const place = placeOf(params.id, query);
    const contentType = 'application/x-tar';
    if (incoming.method === 'HEAD') {
      await files.stat(place, true);
      return { ...empty, headers: { 'content-type': contentType } };
    }
    const tar = await files.pack(place, signal);
    const onEnd = (): void => tar[Symbol.dispose]();
    return { type: 'bytes', contentType, bytes: undefined, pieces: tar.data(), onEnd };
  };
}

function reading(files: Files): HandlerOf<'file.read'> {
  return async ({ params, query, header, incoming }) => {
    const place = placeOf(params.id, query);
    const isUnchanged = (stat: FileStat): boolean => {
      const known = header('if-none-match');
      return (
        known !== undefined &&
        known.split(',').some((each) => each.trim().replace(/^W\//, '') === etagOf(stat))
      );
    };
    if (incoming.method === 'HEAD' || header('if-none-match') !== undefined) {
      const stat = await files.stat(place, true);
      if (stat.type === 'directory') throw new AppError('is_a_directory', 'The path names a directory');
      if (stat.type !== 'file') throw new AppError('not_a_file', `The path names a ${stat.type}`);
      if (isUnchanged(stat)) return { ...empty, status: 304, headers: readHeaders(stat) };
      if (incoming.method === 'HEAD') {
        const type = { 'content-type': 'application/octet-stream', 'content-length': `${stat.size}` };
        return { ...empty, headers: { ...readHeaders(stat), ...type } };
      }
    }
    let part: string | undefined;
    const opened = await files.read(place, (stat) => {
      const range = wantedRange(stat, { range: header('range'), ifRange: header('if-range') });
      part = range && `bytes ${range.offset}-${range.offset + range.length - 1}/${stat.size}`;
      return range;
    });
    const { stat } = opened;
    const headers = { ...readHeaders(stat), ...(part === undefined ? {} : { 'content-range': part }) };
    const [, from = 0, to = 0] = /^bytes (\d+)-(\d+)/.exec(part ?? '') ?? [];
    return {
      type: 'bytes',
      status: part === undefined ? 200 : 206,
      headers,
      contentType: 'application/octet-stream',
      bytes: part === undefined ? stat.size || undefined : Number(to) - Number(from) + 1,
      pieces: opened.data(),
      onEnd: () => opened[Symbol.dispose](),
    };
  };
}

function writing(files: Files): HandlerOf<'file.write'> {
  return async ({ params, query, header, incoming }) => {
    const place = placeOf(params.id, query);
    checkWhole(header);
    const condition = conditionOf({ ifMatch: header('if-match'), ifNoneMatch: header('if-none-match') });
    const { append, offset, truncate } = query;
    if ((append === true || offset !== undefined) && condition.over !== undefined) {
      throw new AppError('invalid_request', '`append` and `offset` do not go with If-Match');
    }
    const isClear =
      append === true ? offset === undefined && truncate !== true : truncate !== true || offset !== undefined;
    if (!isClear) {
      throw new AppError(
        'invalid_request',
        '`append` and `offset` exclude each other; `truncate` needs `offset`',
      );
    }
    const stat = await files.write(place, bodyChunks(incoming), {
      how: append === true ? 'append' : 'replace',
      ...(offset === undefined ? {} : { offset }),
      ...(offset === undefined || truncate !== true ? {} : { size: offset }),
      createParents: query.parents === true,
      ...modeOf(query),
      ...ownerOf(query),
      ...condition,
    });
    return answer(place.path, stat);
  };
}

/** A condition that can't be kept must not be passed over. @throws invalid_request */
function checkUnconditional(header: (name: string) => string | undefined): void {
  for (const name of ['if-match', 'if-none-match']) {
    if (header(name) !== undefined)
      throw new AppError('invalid_request', `${name} is not taken here: only a write and a read look at it`);
  }
}

/** What would else be stored as it comes, and be something else than was meant. @throws unsupported_media_type, invalid_request */
function checkWhole(header: (name: string) => string | undefined): void {
  if ((header('content-encoding') ?? 'identity') !== 'identity') {
    throw new AppError('unsupported_media_type', 'Content-Encoding is not taken: send the bytes themselves');
  }
  if (header('content-range') !== undefined) {
    throw new AppError(
      'invalid_request',
      'Content-Range is not taken: a file is written whole, or with `append` or `offset`',
    );
  }
}

function searching(files: Files): HandlerOf<'file.search'> {
  return async ({ params, query, signal }) => {
    const { text, regex, ignore_case: ignoresCase, pattern, limit } = query;
    const search = {
      text,
      isRegex: regex === true,
      ignoresCase: ignoresCase === true,
      matchesMax: limit ?? limits.pageItemsDefault,
      bytesMax: limits.searchBytesMax,
      lineBytesMax: limits.searchLineBytesMax,
      ...(pattern === undefined ? {} : { pattern }),
    };
    const { items, isTruncated } = await files.search(placeOf(params.id, query), search, signal);
    const matches = items.map(
      (match): FileMatchInfo => ({
        ...shown('path', match.path),
        line: match.line,
        column: match.column,
        text: match.text.toString(),
        text_offset: match.offset,
      }),
    );
    return json({ items: matches, truncated: isTruncated });
  };
}

function watching(files: Files): HandlerOf<'file.watch'> {
  const places = new Places('watches are open', limits.watchesMax);
  return async ({ params, query, signal, incoming, caller }) => {
    const place = placeOf(params.id, query);
    const contentType = 'text/event-stream';
    if (incoming.method === 'HEAD') {
      await files.stat(place, true);
      return { ...empty, headers: { 'content-type': contentType } };
    }
    const release = places.take(caller.owner);
    // Also where nobody reads what comes.
    signal.addEventListener('abort', release, { once: true });
    if (signal.aborted) release();
    const watch = await files.watch(place, query.recursive === true, signal).catch((error: unknown) => {
      release();
      throw error;
    });
    return {
      type: 'stream',
      isCounted: true,
      contentType,
      pieces: events(watch, { signal, release }),
      keepAlive: ': keep-alive\n\n',
    };
  };
}

async function* events(
  watch: FileWatching,
  { signal, release }: { readonly signal: AbortSignal; readonly release: () => void },
): AsyncGenerator<string, void, void> {
  using stack = new DisposableStack();
  stack.defer(release);
  stack.use(watch);
  yield event('watching', {});
  try {
    for await (const { change, path } of watch.events()) {
      yield change === 'overflow'
        ? event('overflow', {})
        : event('change', { change, ...shown('path', path) });
    }
  } catch (error) {
    // The client is gone or the daemon stops: the stream ends without `end`.
    if (signal.aborted) return;
    throw error;
  }
  yield event('end', {});
}

/** JSON has no line breaks, so one `data` line holds it. */
const event = (name: string, data: unknown): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;

interface PlaceQuery {
  readonly path?: string | undefined;
  readonly path_base64?: string | undefined;
  readonly as?: Place['as'] | undefined;
}

/** @throws invalid_request */
function placeOf(id: SandboxId, query: PlaceQuery): Place {
  const { path, path_base64: base64 } = query;
  if ((path === undefined) === (base64 === undefined)) {
    throw new AppError('invalid_request', 'exactly one of path and path_base64 is needed');
  }
  return { id, path: path ?? pathOf({ base64: base64 ?? '' }), ...asUser(query) };
}

/** @throws invalid_request */
function pathOf(path: string | { readonly base64: string }): GuestFilePath {
  if (typeof path === 'string') return path;
  const bytes = Buffer.from(path.base64, 'base64');
  if (bytes[0] === 0x2f && !bytes.includes(0)) return bytes;
  throw new AppError('invalid_request', 'path must be absolute and without NUL');
}

const asUser = ({ as }: PlaceQuery) => (as === undefined ? {} : { as });
const modeOf = ({ mode }: { readonly mode?: number | undefined }) => (mode === undefined ? {} : { mode });

function ownerOf({ uid, gid }: { readonly uid?: number | undefined; readonly gid?: number | undefined }) {
  if (uid === undefined && gid === undefined) return {};
  return { owner: { ...(uid === undefined ? {} : { uid }), ...(gid === undefined ? {} : { gid }) } };
}

/** Bytes as text, and as they are where the text does not show them. */
function shown<Name extends 'path' | 'target'>(name: Name, bytes: Uint8Array): Record<Name, string> {
  const text = Buffer.from(bytes).toString();
  const isText = Buffer.from(text).equals(bytes);
  return {
    [name]: text,
    ...(isText ? {} : { [`${name}_base64`]: Buffer.from(bytes).toString('base64') }),
  } as Record<Name, string>;
}

function infoOf(path: GuestFilePath, stat: FileStat): FileInfo {
  return {
    ...shown('path', Buffer.from(path)),
    type: stat.type,
    size: stat.size,
    mode: stat.mode.toString(8).padStart(4, '0'),
    uid: stat.uid,
    gid: stat.gid,
    modified_at: timeOf(stat.mtimeMs),
    ...(stat.target === undefined ? {} : shown('target', stat.target)),
    etag: etagOf(stat),
  };
}

/** A sandbox may set any time: what a date can't be is the latest one. */
function timeOf(ms: number): string {
  return new Date(Math.min(ms, 8_640_000_000_000_000)).toISOString();
}

function answer(path: GuestFilePath, stat: FileStat): Reply {
  const etag = etagOf(stat);
  return { ...json(infoOf(path, stat)), ...(etag === null ? {} : { headers: { etag } }) };
}

function listing(query: {
  readonly limit?: number | undefined;
  readonly cursor?: string | undefined;
}): FileListing {
  const entriesMax = query.limit ?? limits.pageItemsDefault;
  if (query.cursor === undefined) return { entriesMax };
  const after = Buffer.from(query.cursor, 'base64url');
  if (after.length > 0 && !after.includes(0)) return { entriesMax, after };
  throw new AppError('invalid_request', 'cursor: take `next` of the page before as it is');
}

function page({ items, isTruncated }: FilesPage): Reply {
  const last = items.at(-1);
  const value: FilePage = {
    items: items.map(({ path, stat }) => infoOf(path, stat)),
    next: isTruncated && last !== undefined ? last.path.toString('base64url') : null,
  };
  return json(value);
}
