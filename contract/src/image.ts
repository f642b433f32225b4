/** What an OCI image is on the wire, in its record on the disk, and as a sandbox remembers it. */
import { z } from 'zod';
import { isImageLayer, moduleNameSchema, sandboxIdSchema, snapshotLabelSchema } from './ids.ts';
import { imageReferenceSchema } from './image-reference.ts';
import { limits } from './limits.ts';
import { utf8Bytes } from './tolerant.ts';

const text = (bytesMax: number) => z.string().max(bytesMax);

/** What the commands of a sandbox have from its image, where nobody says otherwise. */
export const imageDefaultsSchema = z.strictObject({
  env: z.record(z.string(), z.string()).describe('variables of every command'),
  user: text(256).describe('as the image says it; empty: root'),
  uid: z.int().nullable().describe('found in the image; null: its files have no such user'),
  gid: z.int().nullable(),
  home: z.string().nullable().describe('of that user'),
  workdir: text(4_096).describe('where commands start'),
  entrypoint: z
    .array(z.string())
    .describe('what `squash run --image` starts where no command is named, with `cmd` behind it'),
  cmd: z.array(z.string()),
  labels: z.record(z.string(), z.string()),
});
export type ImageDefaults = z.infer<typeof imageDefaultsSchema>;

export const imageSchema = z.strictObject({
  name: z.string().describe('all of it: `docker.io/library/python:3.12-slim`'),
  id: z.string().describe('`sha256:…` of its configuration, as other engines show it'),
  digest: z
    .string()
    .nullable()
    .describe('`sha256:…` of its manifest; null: it came without one, as in a docker-archive'),
  architecture: z.string().describe('`amd64`, `arm64`'),
  created_at: z.string().nullable().describe('when it was built, as it says'),
  pulled_at: z.string().describe('since when it is here; RFC 3339, UTC'),
  source: z.enum(['registry', 'archive', 'sandbox']),
  size_bytes: z.int().describe('of its layers here'),
  layers: z
    .int()
    .describe(
      'that it has; here they may be fewer: equal ones are one, and a deep image’s lowest are merged',
    ),
  modules: z.array(moduleNameSchema).describe('its layers here, lowest first'),
  devices_left_out: z.int().describe('device nodes that its layers have and a sandbox does not get'),
  ...imageDefaultsSchema.shape,
});
export type Image = z.infer<typeof imageSchema>;

/** All variables together, as the kernel takes them with room for others. */
const variablesBytesMax = 131_072;

/** Whether commands can be started with it: who says so may be a registry, a bucket or a client. */
export function isUsable({ env, home, workdir, user }: ImageDefaults): boolean {
  const isPath = (path: string): boolean =>
    path.startsWith('/') && !path.includes('\0') && path.length <= 4_096;
  const pairs = Object.entries(env);
  const bytes = pairs.reduce((sum, [name, value]) => sum + utf8Bytes(name) + utf8Bytes(value) + 2, 0);
  return (
    bytes <= variablesBytesMax &&
    pairs.every(([name, value]) => /^[^=\0]+$/.test(name) && !value.includes('\0')) &&
    (workdir === '' || isPath(workdir)) &&
    (home === null || isPath(home)) &&
    !user.includes('\0')
  );
}

/** What a sandbox remembers of the image that it was made from, which may have gone since. */
export const sandboxImageSchema = imageDefaultsSchema.extend({
  name: z.string(),
  id: z.string(),
});
export type SandboxImage = z.infer<typeof sandboxImageSchema>;

const word = text(32_768).refine((each) => !each.includes('\0'), { error: 'a word holds no NUL' });
const words = z.array(word).max(1_024);
const named = z
  .record(
    z
      .string()
      .min(1)
      .max(256)
      .regex(/^[^=\0]+$/),
    word,
  )
  .refine((all) => Object.keys(all).length <= 1_024, { error: '1024 names at most' });

export const imageCommitSchema = z.strictObject({
  sandbox: sandboxIdSchema.describe('whose files it has'),
  snapshot: snapshotLabelSchema.optional().describe('as they were then; none: as they are now'),
  name: imageReferenceSchema
    .refine(({ digest }) => digest === undefined, {
      error: 'an image that is made here has a tag and no digest',
    })
    .describe('what it is called; an image of this name here is replaced'),
  changes: z
    .strictObject({
      env: named.optional().describe('set or added'),
      labels: named.optional().describe('set or added'),
      user: text(256).optional(),
      workdir: text(4_096)
        .regex(/^\/[^\0]*$/, { error: 'workdir begins with "/"' })
        .optional(),
      entrypoint: words.optional(),
      cmd: words.optional(),
    })
    .default({})
    .describe('to what the sandbox has from the image that it was made from'),
});
export type ImageCommit = z.output<typeof imageCommitSchema>;

export const imagePullBodySchema = z.strictObject({
  reference: imageReferenceSchema.describe('`python:3.12-slim`, `ghcr.io/owner/name@sha256:…`'),
  wait_ms: z
    .int()
    .min(0)
    .max(limits.imageWaitMsMax)
    .default(limits.imageWaitMsMax)
    .describe('how long the answer may wait for the end; ask again while it is `pulling`'),
  again: z
    .boolean()
    .default(false)
    .describe(
      '`true`: the registry is asked even if an image of this name is here; a tag may name another by now',
    ),
});

export const imagePullSchema = z.strictObject({
  state: z.enum(['pulling', 'ready']),
  name: z.string(),
  layers: z.int().describe('0: not known yet'),
  layers_done: z.int(),
  bytes: z.int().describe('to be fetched; what is here already does not count'),
  bytes_done: z.int(),
  image: imageSchema.nullable().describe('null while it is `pulling`'),
});
export type ImagePull = z.infer<typeof imagePullSchema>;

export const imagePushBodySchema = z.strictObject({
  destination: imageReferenceSchema
    .optional()
    .describe(
      'what it is to be called there, with a tag: `ghcr.io/owner/name:1`; none: what it is called here',
    ),
  wait_ms: z
    .int()
    .min(0)
    .max(limits.imageWaitMsMax)
    .default(limits.imageWaitMsMax)
    .describe('how long the answer may wait for the end; ask again while it is `pushing`'),
});

export const imagePushSchema = z.strictObject({
  state: z.enum(['pushing', 'ready']),
  name: z.string().describe('of the image here'),
  destination: z.string(),
  layers: z.int(),
  layers_done: z.int(),
  layers_present: z.int().describe('that the registry had already'),
  bytes: z.int().describe('to be sent, as far as it is known'),
  bytes_done: z.int(),
  digest: z
    .string()
    .nullable()
    .describe('`sha256:…` of its manifest in the registry; null while it is `pushing`'),
});
export type ImagePush = z.infer<typeof imagePushSchema>;

export const imageFlattenSchema = z.strictObject({
  module: moduleNameSchema
    .refine((name) => !isImageLayer(name), { error: 'the name of an image’s layer' })
    .describe('`NNN-name`'),
  replace: z.boolean().default(false).describe('`true`: take the place of a module of this name'),
});
