/**
 * Groups: agents that share a folder and a tier. Messages come in through their chats and start runs, each in a sandbox of its own;
 * what a run says goes out through the chat that started it.
 */
import { z } from 'zod';
import { backendSchema } from './backend.ts';
import { argumentSchema } from './exec.ts';
import { groupLimits } from './group-limits.ts';
import { groupMountsSchema } from './group-mounts.ts';
import { groupProfiles } from './group-profiles.ts';
import { moduleNameSchema } from './ids.ts';
import { imageReferenceSchema } from './image-reference.ts';
import { limits } from './limits.ts';
import { secretLimits, secretNameSchema } from './secrets.ts';
import { destinationsSchema, idleTimeoutSchema, tierNameSchema, timeoutSchema } from './tiers.ts';
import { boundedText } from './tolerant.ts';

/** The rule of NanoClaw's folders. */
export const groupNameSchema = z.string().regex(/^(?!global$)[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/i, {
  error:
    'a group’s name has letters, digits, "_" and "-", a letter or digit first, 64 at most, and is not "global"',
});

/** As chat systems name theirs: `tg:-100123`, `1203@g.us`. */
export const chatNameSchema = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9@:._+-]{0,127}$/, {
  error:
    'a chat’s name has letters, digits, "@", ":", ".", "_", "+" and "-", a letter or digit first, 128 at most',
});

const textSchema = boundedText('text', groupLimits.messageBytesMax).refine((text) => text !== '', {
  error: 'must not be empty',
});
export const messageTextSchema = textSchema;
const senderSchema = boundedText('sender', 256)
  .refine((text) => text !== '', { error: 'must not be empty' })
  .refine((text) => !/^(?:group|schedule):/.test(text), {
    error: 'a sender does not begin with "group:" or "schedule:": that is how agents and schedules are named',
  });

const notSeen = /[\s\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;
/** Drawn as a colon is. */
const colons = /[\u02d0\u2236\ua789]/g;
/** A word as long as ours, of Latin letters and of those of another script that are drawn like them, as no language writes one. */
const disguised =
  /^(?=[^:]*\p{Script=Latin})(?=[^:]*[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}])(?:.{5,6}|.{8}):/u;

/** As a person or a model reads it: neither case nor width nor what nobody sees makes another name of it. */
function looksOurs(sender: string): boolean {
  const seen = sender.normalize('NFKC').replaceAll(notSeen, '').replaceAll(colons, ':');
  return /^(?:group|schedule|squash):/i.test(seen) || disguised.test(seen);
}

const outputSchema = z.int().min(groupLimits.outputBytes.least).max(groupLimits.outputBytes.most);

/** What of a group may be changed, each without what it is where nobody says so. */
const groupFields = {
  tier: tierNameSchema,
  command: z
    .array(argumentSchema)
    .min(1)
    .max(256)
    .refine(([program]) => program !== '', { error: 'the program must not be empty' })
    .describe(
      'run for each run, by uid 1000 in `/workspace/group`, its home `/workspace/session`; the messages are its standard input',
    ),
  profile: z
    .enum(groupProfiles)
    .nullable()
    .describe(
      'the host that `command` was written for, whose paths and protocol it gets; null: it is written for Squash',
    ),
  layers: z
    .array(moduleNameSchema)
    .max(limits.layersMax)
    .describe('of its sandboxes; none: those of the image, or the first base layer'),
  image: z
    .string()
    .refine((text) => imageReferenceSchema.safeParse(text).success, {
      error: 'image: no name of an OCI image',
    })
    .nullable()
    .describe('an OCI image that was pulled, below the layers'),
  env: z
    .record(
      z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, {
        error: 'a variable’s name has letters, digits and "_", no digit first',
      }),
      z.string().max(4_096),
    )
    .refine((env) => Object.keys(env).length <= 64, { error: 'env: 64 variables at most' }),
  reach: destinationsSchema.describe('what its sandboxes may connect to, of what the tier allows'),
  secrets: z
    .array(secretNameSchema)
    .max(secretLimits.secretsMax)
    .describe('which secrets they may use, of what the tier allows'),
  mounts: groupMountsSchema.describe(
    'directories of the host that its runs have, as far as the tier and host-directories.json allow it',
  ),
  memory_mb: z
    .int()
    .min(limits.memoryMbMin)
    .max(limits.memoryMbMax)
    .optional()
    .describe('none: the daemon’s default'),
  cpu: z
    .number()
    .min(limits.cpuMin)
    .max(limits.cpuMax)
    .nullable()
    .describe('processors; null: the daemon’s default'),
  backend: backendSchema
    .nullable()
    .describe('what isolates its runs; `vm`: a kernel of their own; null: as SQUASH_BACKEND says'),
  timeout_s: timeoutSchema.nullable().describe('a run that takes longer is ended; null: as the tier says'),
  idle_timeout_s: idleTimeoutSchema
    .nullable()
    .describe('a run is ended when neither output nor an action came for so long; null: as the tier says'),
  output_bytes_max: outputSchema.describe('what of a run’s output is told'),
  session_mb: z
    .int()
    .min(groupLimits.sessionMb.least)
    .max(groupLimits.sessionMb.most)
    .describe('what the session of each of its chats may take, where this host can hold it to that'),
};
const groupShape = {
  name: groupNameSchema,
  ...groupFields,
  profile: groupFields.profile.default(null),
  layers: groupFields.layers.default([]),
  image: groupFields.image.default(null),
  env: groupFields.env.default({}),
  reach: groupFields.reach.default([]),
  secrets: groupFields.secrets.default([]),
  mounts: groupFields.mounts.default([]),
  cpu: groupFields.cpu.default(null),
  backend: groupFields.backend.default(null),
  timeout_s: groupFields.timeout_s.default(null),
  idle_timeout_s: groupFields.idle_timeout_s.default(null),
  output_bytes_max: groupFields.output_bytes_max.default(groupLimits.outputBytes.default),
  session_mb: groupFields.session_mb.default(groupLimits.sessionMb.default),
};
export const groupCreateSchema = z.strictObject(groupShape);
export type GroupCreate = z.output<typeof groupCreateSchema>;
export const groupChangeSchema = z
  .strictObject({ ...groupFields, memory_mb: groupFields.memory_mb.nullable() })
  .partial();
export type GroupChange = z.infer<typeof groupChangeSchema>;

export const groupSchema = z.strictObject({
  ...groupShape,
  layers: z.array(z.string()),
  memory_mb: z.int().nullable(),
  volume: z.string().nullable().describe('its folder; null: no run has had one yet'),
  created_at: z.string(),
  created_by: z.string().nullable().describe('the group whose agent made it; null: a client of the API'),
  queued: z.int().describe('runs that wait'),
  running: z.int(),
});
export type Group = z.infer<typeof groupSchema>;

const chatFields = {
  trigger: boundedText('trigger', 64)
    .refine((text) => text.trim() === text && text !== '', {
      error: 'must not be empty, nor begin or end with a space',
    })
    .nullable()
    .describe('what a message begins with that starts a run; null: any does'),
  senders: z
    .union([z.literal('*'), z.array(senderSchema).max(256)])
    .describe('who may start runs; `*`: everybody'),
  others: z
    .enum(['context', 'drop'])
    .describe('what becomes of other senders’ messages: the next run reads them, or they are not stored'),
};
const chatShape = {
  name: chatNameSchema,
  group: groupNameSchema,
  trigger: chatFields.trigger.default(null),
  senders: chatFields.senders.default('*'),
  others: chatFields.others.default('context'),
};
export const chatCreateSchema = z.strictObject(chatShape);
export type ChatCreate = z.output<typeof chatCreateSchema>;
export const chatChangeSchema = z.strictObject(chatFields).partial();
export type ChatChange = z.infer<typeof chatChangeSchema>;
export const chatSchema = z.strictObject({
  ...chatShape,
  session: z
    .string()
    .nullable()
    .describe('the volume of what its agent keeps for it alone; null: no run has had one yet'),
  created_at: z.string(),
  waiting: z.int().describe('messages that no run has had'),
});
export type Chat = z.infer<typeof chatSchema>;

export const messageBodySchema = z.strictObject({
  sender: senderSchema
    .refine((text) => !looksOurs(text), {
      error: 'a sender does not look as if it began with "group:", "schedule:" or "squash:"',
    })
    .describe('as the chat system knows him'),
  text: textSchema,
  id: boundedText('id', 128)
    .refine((text) => text !== '', { error: 'must not be empty' })
    .optional()
    .describe('the chat system’s own; a message that comes again with it is the first one'),
});
export type MessageBody = z.output<typeof messageBodySchema>;

export const messageVerdicts = ['starts', 'context', 'dropped'] as const;
export const messageTakenSchema = z.strictObject({
  verdict: z
    .enum(messageVerdicts)
    .describe('`starts`: a run has it; `context`: the next run reads it along; `dropped`: not stored'),
  reason: z.string().describe('the rule that decided'),
  message: z.int().nullable().describe('its number; null: it was dropped'),
  run: z.int().nullable().describe('the run that waits for its turn'),
});
export type MessageTaken = z.infer<typeof messageTakenSchema>;

export const outMessageSchema = z.strictObject({
  message: z.int().describe('its number: what `after` goes on behind'),
  chat: chatNameSchema,
  text: z.string(),
  by: z.string().describe('the group that says it'),
  run: z.int(),
  action: z.string().nullable().describe('the agent’s id of the action; null: its command printed it'),
  at: z.string(),
});
export type OutMessage = z.infer<typeof outMessageSchema>;
export const outPageSchema = z.strictObject({ items: z.array(outMessageSchema), next: z.null() });

export const runStates = ['queued', 'running', 'done', 'failed'] as const;
export const runSchema = z.strictObject({
  run: z.int(),
  group: groupNameSchema,
  chat: chatNameSchema,
  state: z.enum(runStates),
  attempt: z.int().describe('1: the first'),
  reason: z.string().nullable().describe('why the last attempt failed, or what it waits for'),
  exit_code: z.int().nullable(),
  sandbox: z.string().nullable().describe('while it has one'),
  warm: z.boolean().describe('an earlier run of the chat was in its sandbox'),
  warm_until: z
    .string()
    .nullable()
    .describe('it is over and its sandbox is kept so long, for the next run of the chat'),
  output_bytes: z.int().describe('told, of its standard output'),
  truncated: z.boolean().describe('it printed more'),
  depth: z.int().describe('runs that started it, one the other'),
  created_at: z.string(),
  started_at: z.string().nullable(),
  finished_at: z.string().nullable(),
});
export type Run = z.infer<typeof runSchema>;
