/**
 * A sandbox whose root is the host's file system, seen through rules: a level for each path.
 *
 * The longest path that a rule has wins, at equal length the stricter level. What no rule names is hidden.
 */
import { z } from 'zod';
import { isPlainPath } from './host-directory.ts';
import { type PathLevel, pathLevels } from './path-levels.ts';
import { boundedText, utf8Bytes } from './tolerant.ts';

export const hostRootLimits = {
  pathsMax: 200,
  socketsMax: 32,
  devicesMax: 32,
  masksBytesMax: 65_536,
  /** Mounts of one start, as the launcher has it. */
  placesMax: 256,
} as const;

const pathSchema = z.string().refine(isPlainPath, {
  error: 'a path is absolute, in UTF-8, without control characters, ".", "..", "//" or a slash at its end',
});

const levelsSchema = z
  .record(pathSchema, z.enum(pathLevels))
  .refine((paths) => Object.keys(paths).length <= hostRootLimits.pathsMax, {
    error: `paths: ${hostRootLimits.pathsMax} at most`,
  });

const masksSchema = z.record(pathSchema, z.string()).refine(
  (masks) => {
    const texts = Object.values(masks);
    return texts.reduce((sum, text) => sum + utf8Bytes(text), 0) <= hostRootLimits.masksBytesMax;
  },
  { error: `masks: ${hostRootLimits.masksBytesMax} bytes together at most` },
);

/** A line of `/etc/passwd` has no `:`, and an environment no NUL. */
const plainWord = (field: string) =>
  boundedText(field, 256).regex(/^[^:\p{Cc}]+$/u, { error: `${field}: without ":" and control characters` });

const userSchema = z.strictObject({
  name: plainWord('name'),
  home: pathSchema,
  shell: pathSchema.default('/bin/sh'),
});

export const hostRootSchema = z
  .strictObject({
    paths: levelsSchema.describe(
      'path of the host → level: `hidden`, `deny`, `ro`, `cow` (writes stay in the sandbox), `rw` or `mask`. The longest path wins; what none names is hidden',
    ),
    masks: masksSchema.default({}).describe('what a file of level `mask` holds, by its path'),
    sockets: z
      .array(pathSchema)
      .max(hostRootLimits.socketsMax)
      .default([])
      .describe(
        'Unix sockets of the host that are reached at their paths, in a hidden directory as well. A rule for the same path decides; those of container engines are refused',
      ),
    devices: z
      .array(pathSchema)
      .max(hostRootLimits.devicesMax)
      .default([])
      .describe(
        'character devices of the host below `/dev`. A rule for the same path decides; disks, memory, networks, terminals and keyboards are refused',
      ),
    user: userSchema.describe('who commands run as: the user whose daemon this is, as on the host'),
    when_unused: z
      .enum(['keep', 'stop', 'destroy'])
      .default('keep')
      .describe(
        'what becomes of it some seconds after its last command ended. A command of a stream whose client is gone does not count',
      ),
    trace_paths: z
      .boolean()
      .default(false)
      .describe(
        'note which paths its programs are refused (`sandbox.paths`). Each call with a path takes some microseconds more',
      ),
    nesting: z
      .boolean()
      .default(false)
      .describe(
        'its programs may make user namespaces of their own, and the others in them: for a sandbox inside the sandbox. More of the kernel is reached',
      ),
    work: pathSchema
      .optional()
      .describe('a path of level `cow`: `when_unused: "stop"` destroys a sandbox that wrote nothing there'),
  })
  .refine(({ paths, work }) => work === undefined || paths[work] === 'cow', {
    error: 'work: the path needs the level "cow" in paths',
  })
  .refine(({ trace_paths: isTraced, nesting }) => !(isTraced && nesting), {
    error: 'trace_paths: not with nesting, for paths in a namespace of a program’s own are others',
  })
  .refine(({ paths, masks }) => Object.keys(masks).every((path) => paths[path] === 'mask'), {
    error: 'masks: each path needs the level "mask" in paths',
  })
  .refine(
    ({ paths, masks }) => Object.entries(paths).every(([path, level]) => level !== 'mask' || path in masks),
    {
      error: 'paths: what has the level "mask" needs its text in masks',
    },
  );
export type HostRoot = Readonly<z.infer<typeof hostRootSchema>>;

export const hostPathsSchema = z.record(z.string(), z.enum(pathLevels));
export type HostPaths = Readonly<Record<string, PathLevel>>;
