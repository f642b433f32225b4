/** Which paths the programs of a sandbox were refused. */
import { z } from 'zod';
import { guestLimits } from './guest/frames.ts';

export const pathsListMax = 1_000;

export const refusedPathSchema = z.strictObject({
  id: z.int().min(1).describe('of this sandbox; rises'),
  at: z.string().describe('when it was refused first, RFC 3339'),
  path: z.string().describe('absolute; by the text alone, so links are as they were written'),
  path_base64: z.string().optional().describe('the path’s bytes, where they are not UTF-8'),
  intent: z
    .enum(['look', 'read', 'write', 'execute'])
    .describe('`look`: whether it is there, and what; `write`: also to make, rename or remove it'),
});
export type RefusedPathInfo = z.infer<typeof refusedPathSchema>;

export const refusedPathsSchema = z.strictObject({
  traced: z.boolean().describe('whether it was made with `from.host.trace_paths`; else there is nothing'),
  items: z.array(refusedPathSchema).describe('in the order in which they came'),
  truncated: z
    .boolean()
    .describe(`there were more than are kept: ${guestLimits.tracedPathsMax}, or a megabyte of paths`),
});
export type RefusedPathsAnswer = z.infer<typeof refusedPathsSchema>;
