/**
 * Directories of the host that an operator lets sandboxes have: `host-directories.json` in the data directory.
 * None, or no such file: there are none.
 */
import { z } from 'zod';

/** Absolute, and as the kernel would say it: no `.`, no `..`, no `//`, nothing at its end, no control characters. */
export function isPlainPath(path: string): boolean {
  if (path === '/') return true;
  if (!path.startsWith('/') || Buffer.byteLength(path) > 500) return false;
  const parts = path.slice(1).split('/');
  return parts.every((part) => part !== '' && part !== '.' && part !== '..' && !/[\p{Cc}\uFFFD]/u.test(part));
}

export const hostDirectoryEntrySchema = z.strictObject({
  path: z
    .string()
    .refine(isPlainPath, { error: 'path: absolute, without ".", "..", "//" or a slash at its end' }),
  mode_max: z.enum(['ro', 'rw']).default('ro').describe('rw: may be attached for writing, too'),
  owners: z.array(z.string()).exactOptional().describe('whose sandboxes may have it; none: everybody’s'),
  description: z.string().max(1_000).exactOptional().describe('what it is, for people'),
  shows: z
    .array(z.string())
    .default([])
    .describe('names of credentials that may lie in it, such as ".env": they are seen inside'),
  hides: z
    .array(
      z.string().refine((name) => isPlainPath(`/${name}`) && name !== '', {
        error: 'hides: names in it, or paths below it, without ".", ".." or "//"',
      }),
    )
    .max(64)
    .default([])
    .describe('names in what is attached, such as ".env", that are seen as empty files or directories'),
});
export type HostDirectoryEntry = Readonly<z.infer<typeof hostDirectoryEntrySchema>>;

const entriesSchema = z.array(hostDirectoryEntrySchema).max(1_000);

/** A list alone is one that blocks no names of its own. */
export const hostDirectoriesSchema = z.preprocess(
  (value) => (Array.isArray(value) ? { directories: value } : value),
  z.strictObject({
    directories: entriesSchema.default([]),
    blocked: z
      .array(z.string().min(1).max(100))
      .max(256)
      .default([])
      .describe('what no part of a path may hold, in any letters'),
  }),
);
export type HostDirectories = Readonly<z.output<typeof hostDirectoriesSchema>>;
