/** Directories of the host that the runs of a group have: what the operator asks for, of what list and tier allow. */
import { z } from 'zod';
import { isPlainPath } from './host-directory.ts';
import { limits } from './limits.ts';
import { mountPathSchema } from './volume.ts';

/** Where a group's folder is in its sandboxes. */
export const groupFolder = '/workspace/group';
/** … and what a chat's agent keeps for that chat alone. */
export const chatSession = '/workspace/session';
/** … and what all groups of the daemon read, and those write whose tier says so. */
export const globalMemory = '/workspace/global';
const taken = [groupFolder, chatSession, globalMemory];

export const groupMountSchema = z.strictObject({
  host: z
    .string()
    .refine(isPlainPath, { error: 'host: absolute, without ".", "..", "//" or a slash at its end' })
    .describe('a directory of the host that the operator’s host-directories.json allows'),
  path: mountPathSchema
    .refine((path) => !taken.some((own) => isNested(path, own)), {
      error: `path: not ${taken.join(' or ')}, nor in or around them, which groups have already`,
    })
    .describe('where it is seen'),
  mode: z.enum(['ro', 'rw']).default('ro'),
});
export type GroupMount = Readonly<z.output<typeof groupMountSchema>>;

export const groupMountsSchema = z
  .array(groupMountSchema)
  // Those are mounts, too.
  .max(limits.mountsMax - taken.length)
  .refine(
    (mounts) => mounts.every((each, at) => mounts.slice(at + 1).every((other) => !collide(each, other))),
    {
      error: 'mounts: none twice, and none at, in or around the path of another',
    },
  );

function collide(a: GroupMount, b: GroupMount): boolean {
  return a.host === b.host || isNested(a.path, b.path);
}

/** One is the other, or in it. */
export function isNested(a: string, b: string): boolean {
  return `${a}/`.startsWith(`${b}/`) || `${b}/`.startsWith(`${a}/`);
}
