/**
 * Tiers: how far the agents of a group are trusted, as data.
 *
 * What a newcomer would get wrong: a tier says what agents may do through their channel and with their sandbox, never what a client
 * of the API may. No agent can read or change a tier, or choose its own.
 */
import { z } from 'zod';
import { nothing, parsePattern, patternCharsMax } from './destination.ts';
import { policyLimits } from './policy.ts';
import { secretSubsetSchema } from './secrets.ts';
import { groupLimits } from './group-limits.ts';

export const tierNameSchema = z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/, {
  error: 'a tier’s name has lower-case letters, digits, "_" and "-", a letter first',
});

/** What is asked for is done, waits for a person, or is refused. */
export const effects = ['allow', 'hold', 'deny'] as const;
export type Effect = (typeof effects)[number];
const effectSchema = z.enum(effects);

/** The agent's own group, and every other one, whether it exists or not. */
const reachSchema = z.strictObject({ own: effectSchema, others: effectSchema });

export const timeoutSchema = z.int().min(groupLimits.timeoutS.least).max(groupLimits.timeoutS.most);
export const idleTimeoutSchema = z
  .int()
  .min(groupLimits.idleTimeoutS.least)
  .max(groupLimits.idleTimeoutS.most);

const destinationSchema = z
  .string()
  .max(patternCharsMax)
  .refine((text) => text !== nothing && parsePattern(text).ok, {
    error:
      'a destination is `host`, `*.host`, an address, a range, `*` or `preset:name`, each with `:port` where it may have one',
  });
export const destinationsSchema = z.array(destinationSchema).max(policyLimits.rulesMax);

export const tierBodySchema = z.strictObject({
  message: reachSchema.describe('saying something in a chat'),
  start: reachSchema.describe('starting a run, by a message to a chat’s group'),
  read: reachSchema.describe('seeing groups, chats, runs and what was said'),
  create: effectSchema.describe('making groups and chats'),
  create_tiers: z
    .array(tierNameSchema)
    .max(groupLimits.tiersMax)
    .describe('the tiers that groups made by agents may have; none: agents make no groups'),
  schedule: reachSchema
    .default({ own: 'deny', others: 'deny' })
    .describe('making schedules in a chat; pausing, resuming and removing those that its agents made there'),
  schedule_every_s_min: z
    .int()
    .min(1)
    .max(groupLimits.everyS.most)
    .default(3_600)
    .describe('the least time between two times of such a schedule, and before one that comes once'),
  reach: destinationsSchema.describe('what its groups’ sandboxes may connect to at most; none: nothing'),
  secrets: secretSubsetSchema.describe('which secrets its groups’ sandboxes may use at most'),
  mounts: z
    .enum(['none', 'ro', 'rw'])
    .default('none')
    .describe('how its groups may have directories of the host, of those that are listed'),
  global_memory: z
    .enum(['none', 'ro', 'rw'])
    .default('ro')
    .describe('how its groups’ runs have `/workspace/global`, the memory that all groups share'),
  runs_max: z
    .int()
    .min(1)
    .max(groupLimits.runsMax)
    .default(groupLimits.runsMax)
    .describe('runs at once, of all its groups'),
  priority: z
    .int()
    .min(0)
    .max(groupLimits.priorityMax)
    .default(0)
    .describe('whose runs begin first where several wait; a run that waits counts one more each minute'),
  timeout_s: timeoutSchema
    .default(groupLimits.timeoutS.default)
    .describe('a run of a group that says nothing else is ended when it takes longer'),
  idle_timeout_s: idleTimeoutSchema
    .default(groupLimits.idleTimeoutS.default)
    .describe('… and when neither output nor an action came for so long'),
  warm_s: z
    .int()
    .min(0)
    .max(groupLimits.warmSMax)
    .default(0)
    .describe(
      'so long the sandbox of a run that ended well is kept for the next run of its chat; 0: each run has a fresh one',
    ),
});
export type TierBody = z.output<typeof tierBodySchema>;

export const tierSchema = tierBodySchema.extend({ name: tierNameSchema, built_in: z.boolean() });
export type Tier = z.infer<typeof tierSchema>;
