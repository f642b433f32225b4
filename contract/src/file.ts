/**
 * Files of a sandbox as `/v1` has them. A path is bytes that need not be UTF-8: where they are not, `path` is what can be shown
 * of them, and `path_base64` the bytes themselves, which every operation takes back.
 */
import { z } from 'zod';
import { guestLimits } from './guest/frames.ts';
import { limits } from './limits.ts';
import { queryFlag, queryInteger } from './operations/query.ts';
import { utf8Bytes } from './tolerant.ts';

const base64Schema = z
  .string()
  .max(Math.ceil(guestLimits.pathBytesMax / 3) * 4)
  .regex(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/, {
    error: 'path_base64 is no base64 with its padding',
  });

const pathTextSchema = z
  .string()
  .startsWith('/', { error: 'path must be absolute' })
  .refine((path) => !path.includes('\0') && utf8Bytes(path) < guestLimits.pathBytesMax, {
    error: `path: below ${guestLimits.pathBytesMax} bytes and without NUL`,
  });

const asSchema = z
  .string()
  .regex(/^(?:\d{1,10}(?::\d{1,10})?|[A-Za-z_][A-Za-z0-9_.-]{0,30}\$?)$/, {
    error: 'as: UID, UID:GID or a name',
  })
  .transform((text) => {
    if (!/^\d/.test(text)) return text;
    const [uid = '', gid = uid] = text.split(':');
    return { uid: Number(uid), gid: Number(gid) };
  })
  .refine((as) => typeof as === 'string' || Math.max(as.uid, as.gid) < limits.fileIdMax, {
    error: `as: ids below ${limits.fileIdMax}`,
  })
  .meta({ type: 'string' })
  .describe(
    'do it as this user, `UID`, `UID:GID` or a name of the sandbox’s /etc/passwd, with its rights and for it; without it as root',
  );

/** Where a file is, in a query string: exactly one of the two. */
export const placeShape = {
  path: pathTextSchema.optional().describe('absolute'),
  path_base64: base64Schema.optional().describe('instead of `path`: the bytes of one that is not UTF-8'),
  as: asSchema.optional(),
};

/** The same in a JSON body. */
export const filePathSchema = z
  .union([pathTextSchema, z.strictObject({ base64: base64Schema })])
  .describe('absolute; `{"base64": …}` where it is not UTF-8');

export const fileModeSchema = z
  .string()
  .regex(/^0?[0-7]{3,4}$/, { error: 'mode: three or four octal digits, such as "644"' })
  .transform((text) => Number.parseInt(text, 8))
  .refine((mode) => mode <= 0o7777, { error: 'mode: at most 7777' })
  .meta({ type: 'string', pattern: '^0?[0-7]{3,4}$' })
  .describe('octal, such as "644"');

export const fileIdSchema = z
  .int()
  .min(0)
  .max(limits.fileIdMax - 1);

export const fileTimeSchema = z.iso
  .datetime({ error: 'modified_at must be a time in UTC, such as 2030-01-31T12:00:00Z' })
  .refine((text) => Date.parse(text) >= 0, { error: 'modified_at must not be before 1970' })
  .describe('when it was last changed; RFC 3339, UTC; of one file, without `recursive`');

/** Whose a new file is to be and what its mode, in a query string. */
export const creationShape = {
  mode: fileModeSchema.optional(),
  uid: queryInteger('uid', { min: 0, max: limits.fileIdMax - 1 }),
  gid: queryInteger('gid', { min: 0, max: limits.fileIdMax - 1 }),
  parents: queryFlag('parents').describe('`true`: make the directories that are missing'),
};

const pathAnswer = {
  path: z.string(),
  path_base64: z.string().optional().describe('where `path` does not show its bytes'),
};

export const fileTypeNames = ['file', 'directory', 'symlink', 'fifo', 'socket', 'device'] as const;

export const fileSchema = z.strictObject({
  ...pathAnswer,
  type: z.enum(fileTypeNames),
  size: z.int(),
  mode: z.string().describe('octal, four digits'),
  uid: z.int(),
  gid: z.int(),
  modified_at: z.string(),
  target: z.string().optional().describe('a symlink’s text'),
  target_base64: z.string().optional(),
  etag: z.string().nullable().describe('of this state of the file, as the header ETag has it'),
});
export type FileInfo = z.output<typeof fileSchema>;

export const filePageSchema = z.strictObject({ items: z.array(fileSchema), next: z.string().nullable() });
export type FilePage = z.output<typeof filePageSchema>;

export const fileMatchSchema = z.strictObject({
  ...pathAnswer,
  line: z.int().describe('from 1'),
  column: z.int().describe('from 1, in bytes'),
  text: z.string().describe('the line, or a piece of it around the match'),
  text_offset: z.int().describe('where in the line `text` begins, in bytes'),
});
export type FileMatchInfo = z.output<typeof fileMatchSchema>;

export const fileMatchesSchema = z.strictObject({
  items: z.array(fileMatchSchema),
  truncated: z.boolean().describe('a bound ended the search: there may be more'),
});
export type FileMatches = z.output<typeof fileMatchesSchema>;

export const fileEventSchema = z.strictObject({
  change: z.enum(['created', 'changed', 'attributes', 'removed', 'moved']),
  ...pathAnswer,
});

export const unpackedSchema = z.strictObject({ entries: z.int(), bytes: z.int() });
export type Unpacked = z.output<typeof unpackedSchema>;
