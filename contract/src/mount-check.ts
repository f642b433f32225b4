/**
 * Whether a sandbox would get a directory of the host, and what each rule says of it. Asked by the operator, before a group is made or to
 * find out why it was refused.
 */
import { z } from 'zod';
import { ownerSchema } from './keys.ts';
import { tierNameSchema } from './tiers.ts';
import { boundedText } from './tolerant.ts';
import type { MountPaths } from './volume.ts';

/** A directory of the host that a sandbox is to have. */
export interface HostWish {
  readonly path: string;
  readonly mode: 'ro' | 'cow' | 'rw';
  readonly paths?: MountPaths | undefined;
  /** Of the sandbox. */
  readonly owner: string;
}

export const mountCheckBodySchema = z.strictObject({
  host: boundedText('host', 4_096).describe('the directory of the host'),
  path: boundedText('path', 4_096).exactOptional().describe('where the sandbox would have it'),
  mode: z.enum(['ro', 'cow', 'rw']).default('ro'),
  owner: ownerSchema.exactOptional().describe('whose sandbox; none: the one of sandboxes without an owner'),
  tier: tierNameSchema.exactOptional().describe('of a group whose runs would have it'),
});
export type MountCheckBody = z.output<typeof mountCheckBodySchema>;

export const mountStepSchema = z.strictObject({
  rule: z.string().describe('`place`, `tier`, `path`, `list`, `owner`, `mode`, …'),
  allowed: z.boolean(),
  reason: z.string().nullable().describe('the code of a refusal'),
  sentence: z.string(),
});
export type MountStep = Readonly<z.infer<typeof mountStepSchema>>;

export const mountCheckAnswerSchema = z.strictObject({
  allowed: z.boolean(),
  mode: z.enum(['ro', 'cow', 'rw']),
  reason: z.string().nullable().describe('why not, as `host_directory_refused` has it'),
  steps: z
    .array(mountStepSchema)
    .describe('the rules in the order they are asked; one that refuses is the last'),
});
export type MountCheckAnswer = Readonly<z.infer<typeof mountCheckAnswerSchema>>;
