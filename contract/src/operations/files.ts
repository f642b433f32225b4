/** The operations on the files of a sandbox. All of them go through its PID 1; none opens its paths on the host. */
import { z } from 'zod';
import {
  creationShape,
  fileEventSchema,
  fileIdSchema,
  fileMatchesSchema,
  fileModeSchema,
  filePageSchema,
  filePathSchema,
  fileSchema,
  fileTimeSchema,
  placeShape,
  unpackedSchema,
} from '../file.ts';
import { limits } from '../limits.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape, queryFlag, queryInteger } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

/** What any of them may meet. */
const fileErrors = [
  'sandbox_not_found',
  'sandbox_not_ready',
  'sandbox_paused',
  'host_full',
  'sandbox_busy',
  'user_not_found',
  'file_not_found',
  'not_a_directory',
  'is_a_directory',
  'not_a_file',
  'permission_denied',
  'path_invalid',
  'file_busy',
  'file_failed',
  'exec_limit',
  'guest_failed',
] as const;
const changeErrors = [...fileErrors, 'file_exists', 'sandbox_full'] as const;

const path = '/v1/sandboxes/{id}/files';
const native = { dialect: 'native', params: sandboxParams } as const;
const tar = 'application/x-tar';
const bytes = 'application/octet-stream';

const fileRead = defineOperation({
  ...native,
  id: 'file.read',
  method: 'GET',
  path,
  summary: 'The bytes of a file',
  description:
    'One range may be asked for with `Range: bytes=…`; `If-Range` and `If-None-Match` take the ETag. `HEAD` answers what ' +
    'the headers say. Symlinks are followed. A file that says it is empty, as those in /proc do, is sent as far as it can be read.',
  query: z.strictObject(placeShape),
  answers: [
    { status: 200, description: 'The file', contentType: bytes },
    { status: 206, description: 'The range', contentType: bytes },
    { status: 304, description: 'It is still as `If-None-Match` says' },
  ],
  errors: [...fileErrors, 'range_not_satisfiable', 'stream_limit'],
  permission: 'read',
  example: { query: { path: '/etc/hostname' }, file: 'hostname' },
});

const fileWrite = defineOperation({
  ...native,
  id: 'file.write',
  method: 'PUT',
  path,
  summary: 'Write a file: the body is its content',
  description:
    'The file is replaced when all of it has come: a request that ends early leaves the old one. What is replaced hands its ' +
    'mode and owner on; a symlink is written through to what it names. `If-None-Match: *` makes a new file only, `If-Match` ' +
    'replaces the one with this ETag only. With `append=true` the bytes go behind what is there, as they come; with `offset` into the ' +
    'file from that byte on, and with `truncate=true` it ends there first.',
  query: z.strictObject({
    ...placeShape,
    ...creationShape,
    append: queryFlag('append'),
    offset: queryInteger('offset', { min: 0, max: Number.MAX_SAFE_INTEGER }),
    truncate: queryFlag('truncate'),
  }),
  upload: { contentType: bytes, description: 'The file’s bytes' },
  answers: [{ status: 200, description: 'What is there now', schema: fileSchema }],
  errors: [...changeErrors, 'precondition_failed', 'stream_limit'],
  permission: 'exec',
  example: { query: { path: '/root/notes.txt' }, file: 'notes.txt' },
});

const fileChange = defineOperation({
  ...native,
  id: 'file.change',
  method: 'PATCH',
  path,
  summary: 'Change mode and owner of a file or a tree, or a file’s size and time',
  description:
    'With `recursive` directories can also be entered by whom the mode lets read them. The path’s own symlink is followed, others are not.',
  query: z.strictObject(placeShape),
  body: z
    .strictObject({
      mode: fileModeSchema.optional(),
      uid: fileIdSchema.optional(),
      gid: fileIdSchema.optional(),
      size: z
        .int()
        .min(0)
        .optional()
        .describe('it is cut, or lengthened with zeros; of one file, without `recursive`'),
      modified_at: fileTimeSchema.optional(),
      recursive: z.boolean().default(false),
    })
    .refine(({ recursive, size, modified_at }) => !recursive || (size ?? modified_at) === undefined, {
      error: 'size and modified_at are those of one file: without recursive',
    }),
  answers: [{ status: 200, description: 'The file', schema: fileSchema }],
  errors: changeErrors,
  permission: 'exec',
  example: { query: { path: '/root/notes.txt' }, body: { mode: '600' } },
});

const fileRemove = defineOperation({
  ...native,
  id: 'file.remove',
  method: 'DELETE',
  path,
  summary: 'Remove a file, a link, or a directory',
  query: z.strictObject({
    ...placeShape,
    recursive: queryFlag('recursive').describe('`true`: with everything in it'),
  }),
  answers: [{ status: 204, description: 'It is gone' }],
  errors: [...fileErrors, 'directory_not_empty'],
  permission: 'exec',
  example: { query: { path: '/root/notes.txt' } },
});

const fileStat = defineOperation({
  ...native,
  id: 'file.stat',
  method: 'GET',
  path: `${path}/stat`,
  summary: 'What stands at a path',
  query: z.strictObject({
    ...placeShape,
    follow: queryFlag('follow').describe('`true`: what a symlink names, not the link'),
  }),
  answers: [{ status: 200, description: 'The file', schema: fileSchema }],
  errors: fileErrors,
  permission: 'read',
  example: { query: { path: '/etc/hostname' } },
});

const fileList = defineOperation({
  ...native,
  id: 'file.list',
  method: 'GET',
  path: `${path}/list`,
  summary: 'What is in a directory, and with `depth` below it',
  description:
    'Paths are relative to the one asked for, in the order of their bytes, each directory before what is in it. Symlinks are ' +
    'not followed, other file systems are shown and not entered. What changes between two pages is in them or not; nothing else is missed.',
  query: z.strictObject({
    ...placeShape,
    ...pageShape,
    depth: queryInteger('depth', { min: 1, max: limits.fileDepthMax }).describe(
      '1, the default: the directory itself',
    ),
  }),
  answers: [{ status: 200, description: 'A page', schema: filePageSchema }],
  errors: fileErrors,
  permission: 'read',
  example: { query: { path: '/etc/apt' } },
});

const patternSchema = z
  .string()
  .min(1)
  .max(1_024)
  .describe(
    '`*` and `?` within a name, `**` for any number of directories, `[a-z]`, `{a,b}`; a leading dot must be written',
  );

const fileGlob = defineOperation({
  ...native,
  id: 'file.glob',
  method: 'GET',
  path: `${path}/glob`,
  summary: 'What below a directory matches a pattern',
  query: z.strictObject({ ...placeShape, ...pageShape, pattern: patternSchema }),
  answers: [{ status: 200, description: 'A page', schema: filePageSchema }],
  errors: fileErrors,
  permission: 'read',
  example: { query: { path: '/etc', pattern: '**/*.conf' } },
});

const fileSearch = defineOperation({
  ...native,
  id: 'file.search',
  method: 'GET',
  path: `${path}/search`,
  summary: 'Lines that hold a text, in a file or in all files below a directory',
  description:
    'The first match of each line. Files with a NUL byte are left out from there. The search ends at `limit` matches, and behind ' +
    `${limits.searchBytesMax} bytes read. A line longer than 64 KiB is searched in pieces.`,
  query: z.strictObject({
    ...placeShape,
    text: z.string().min(1).max(limits.searchTextCharsMax),
    regex: queryFlag('regex').describe('`true`: `text` is a POSIX extended regular expression'),
    ignore_case: queryFlag('ignore_case').describe('`true`: of ASCII letters'),
    pattern: patternSchema.optional(),
    limit: pageShape.limit,
  }),
  answers: [{ status: 200, description: 'The matches', schema: fileMatchesSchema }],
  errors: fileErrors,
  permission: 'read',
  example: { query: { path: '/etc', text: 'root', pattern: 'pass*' } },
});

const fileMakeDirectory = defineOperation({
  ...native,
  id: 'file.make_directory',
  method: 'POST',
  path: `${path}/directory`,
  summary: 'Make a directory',
  description: 'With `parents` one that is there already is no failure.',
  query: z.strictObject({ as: placeShape.as }),
  body: z.strictObject({
    path: filePathSchema,
    mode: fileModeSchema.optional(),
    uid: fileIdSchema.optional(),
    gid: fileIdSchema.optional(),
    parents: z.boolean().default(false),
  }),
  answers: [{ status: 200, description: 'The directory', schema: fileSchema }],
  errors: changeErrors,
  permission: 'exec',
  example: { body: { path: '/root/project/src', parents: true } },
});

const placing = {
  from: filePathSchema,
  to: filePathSchema,
  parents: z.boolean().default(false),
  overwrite: z.boolean().default(true).describe('`false`: only where nothing stands at `to`'),
};

const fileMove = defineOperation({
  ...native,
  id: 'file.move',
  method: 'POST',
  path: `${path}/move`,
  summary: 'Give a file or directory another path',
  description:
    'In one step, as rename does; what stands at `to` is replaced. A directory of a layer, or one that goes to another file ' +
    'system, is copied and then removed, and must not replace anything.',
  query: z.strictObject({ as: placeShape.as }),
  body: z.strictObject(placing),
  answers: [{ status: 200, description: 'What is at `to` now', schema: fileSchema }],
  errors: [...changeErrors, 'directory_not_empty'],
  permission: 'exec',
  example: { body: { from: '/root/notes.txt', to: '/root/old.txt' } },
});

const fileCopy = defineOperation({
  ...native,
  id: 'file.copy',
  method: 'POST',
  path: `${path}/copy`,
  summary: 'Copy a file, or with `recursive` a directory to a new place',
  description:
    'With modes, owners, times, symlinks and holes. A file replaces another one when all of it is copied. Several names of one ' +
    'file become several files. A copy that fails in the middle leaves what is copied.',
  query: z.strictObject({ as: placeShape.as }),
  body: z.strictObject({ ...placing, recursive: z.boolean().default(false) }),
  answers: [{ status: 200, description: 'What is at `to` now', schema: fileSchema }],
  errors: changeErrors,
  permission: 'exec',
  example: { body: { from: '/etc/apt', to: '/root/apt', recursive: true } },
});

const fileLink = defineOperation({
  ...native,
  id: 'file.link',
  method: 'POST',
  path: `${path}/link`,
  summary: 'Make a symbolic link, or with `hard` another name of a file',
  query: z.strictObject({ as: placeShape.as }),
  body: z.strictObject({
    path: filePathSchema.describe('the new name'),
    target: z
      .string()
      .min(1)
      .max(limits.linkTargetCharsMax)
      .refine((text) => !text.includes('\0'), { error: 'target must not contain NUL' })
      .describe('a symlink’s text; with `hard` the absolute path of the file'),
    hard: z.boolean().default(false),
    parents: z.boolean().default(false),
  }),
  answers: [{ status: 200, description: 'The link', schema: fileSchema }],
  errors: changeErrors,
  permission: 'exec',
  example: { body: { path: '/root/link', target: '/etc/hostname' } },
});

const fileWatch = defineOperation({
  ...native,
  id: 'file.watch',
  method: 'GET',
  path: `${path}/watch`,
  summary: 'Changes of a file, or in a directory and with `recursive` below it, as server-sent events',
  description:
    '`watching` says that nothing is missed from now on. `change` carries a path relative to the one watched, empty for itself. ' +
    'A new directory is watched when it is told: what came with it is in it by then. ' +
    '`overflow`: changes were lost, because nobody read them in time or there were too many; look at everything again. ' +
    '`end`: what was watched is gone.',
  query: z.strictObject({ ...placeShape, recursive: queryFlag('recursive') }),
  answers: [{ status: 200, description: 'The changes', contentType: 'text/event-stream' }],
  events: {
    watching: z.strictObject({}),
    change: fileEventSchema,
    overflow: z.strictObject({}),
    end: z.strictObject({}),
  },
  errors: [...fileErrors, 'stream_limit'],
  permission: 'read',
  example: { query: { path: '/root', recursive: 'true' } },
});

const filePack = defineOperation({
  ...native,
  id: 'file.pack',
  method: 'GET',
  path: `${path}/archive`,
  summary: 'What is in a directory, or one file, as a tar',
  description:
    'Names are relative to the directory. Other file systems in it are empty directories, sockets and devices are left out, several names of one ' +
    'file are several files. An answer that breaks off is not whole.',
  query: z.strictObject(placeShape),
  answers: [{ status: 200, description: 'The tar', contentType: tar }],
  errors: [...fileErrors, 'stream_limit'],
  permission: 'read',
  example: { query: { path: '/etc/apt' }, file: 'apt.tar' },
});

const fileUnpack = defineOperation({
  ...native,
  id: 'file.unpack',
  method: 'PUT',
  path: `${path}/archive`,
  summary: 'Unpack a tar below a directory',
  description:
    'Nothing of it lands outside of the directory: absolute names, `..` and links that lead out are refused. Each file takes its ' +
    'place whole; what came before a refusal stays. Modes are the archive’s; owners and set-id bits only with `keep_owner=true`.',
  query: z.strictObject({
    ...placeShape,
    uid: creationShape.uid,
    gid: creationShape.gid,
    parents: creationShape.parents,
    keep_owner: queryFlag('keep_owner'),
    entries_max: queryInteger('entries_max', { min: 0, max: limits.archiveEntriesMax }),
    bytes_max: queryInteger('bytes_max', { min: 0, max: Number.MAX_SAFE_INTEGER }),
  }),
  upload: { contentType: tar, description: 'A tar, not compressed' },
  answers: [{ status: 200, description: 'What was unpacked', schema: unpackedSchema }],
  errors: [...changeErrors, 'archive_invalid', 'stream_limit'],
  permission: 'exec',
  example: { query: { path: '/root/apt', parents: 'true' }, file: 'apt.tar' },
});

export const fileOperations = {
  'file.read': fileRead,
  'file.write': fileWrite,
  'file.change': fileChange,
  'file.remove': fileRemove,
  'file.stat': fileStat,
  'file.list': fileList,
  'file.glob': fileGlob,
  'file.search': fileSearch,
  'file.make_directory': fileMakeDirectory,
  'file.move': fileMove,
  'file.copy': fileCopy,
  'file.link': fileLink,
  'file.watch': fileWatch,
  'file.pack': filePack,
  'file.unpack': fileUnpack,
} as const satisfies Operations;
