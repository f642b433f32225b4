/** Actions: what agents ask for over their channel, and what became of it. */
import { z } from 'zod';
import { chatCreateSchema, chatNameSchema, groupNameSchema, messageTextSchema } from './groups.ts';
import {
  hasOneTiming,
  hasZoneOfCron,
  oneTiming,
  scheduleNameSchema,
  scheduleShape,
  zoneOfCron,
} from './schedules.ts';
import { tierNameSchema } from './tiers.ts';
import { boundedText } from './tolerant.ts';

const idSchema = boundedText('id', 128).refine((text) => text !== '', { error: 'must not be empty' });

/** The agent's own name for what it asks for: asked for again, it is answered and not done again. */
const id = { id: idSchema };
const ofSchedule = { chat: chatNameSchema, name: scheduleNameSchema };
export const actionRequestSchema = z.discriminatedUnion('action', [
  z.strictObject({ ...id, action: z.literal('message.send'), chat: chatNameSchema, text: messageTextSchema }),
  z.strictObject({ ...id, action: z.literal('run.start'), chat: chatNameSchema, text: messageTextSchema }),
  /** Command, layers and limits are those of the group that asks; what it may reach is nothing. */
  z.strictObject({ ...id, action: z.literal('group.create'), name: groupNameSchema, tier: tierNameSchema }),
  z.strictObject({
    ...id,
    action: z.literal('chat.create'),
    chat: chatNameSchema,
    group: groupNameSchema,
    trigger: chatCreateSchema.shape.trigger,
  }),
  z
    .strictObject({ ...id, action: z.literal('schedule.create'), ...scheduleShape })
    .refine(hasOneTiming, oneTiming)
    .refine(hasZoneOfCron, zoneOfCron),
  z.strictObject({ ...id, action: z.literal('schedule.pause'), ...ofSchedule }),
  z.strictObject({ ...id, action: z.literal('schedule.resume'), ...ofSchedule }),
  z.strictObject({ ...id, action: z.literal('schedule.remove'), ...ofSchedule }),
]);
export type ActionRequest = z.output<typeof actionRequestSchema>;
export const actionNames = [
  'message.send',
  'run.start',
  'group.create',
  'chat.create',
  'schedule.create',
  'schedule.pause',
  'schedule.resume',
  'schedule.remove',
] as const;

export const actionStates = ['done', 'held', 'denied', 'failed'] as const;

export const actionSchema = z.strictObject({
  number: z.int(),
  id: z.string().describe('the agent’s'),
  action: z.enum(actionNames),
  group: groupNameSchema.describe('whose agent asks'),
  run: z.int(),
  request: z.record(z.string(), z.unknown()).describe('all of what it asks for'),
  state: z.enum(actionStates),
  rule: z.string().describe('what decided'),
  reason: z.string().nullable().describe('a person’s word, or why it failed'),
  asked_at: z.string(),
  decided_at: z.string().nullable(),
});
export type Action = z.infer<typeof actionSchema>;

export const actionDecisionSchema = z.strictObject({
  decision: z.enum(['allow', 'deny']),
  reason: boundedText('reason', 1_024).optional().describe('the agent is told'),
});
export type ActionDecision = z.output<typeof actionDecisionSchema>;
