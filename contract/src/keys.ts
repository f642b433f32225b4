/**
 * API keys and what their owners may have: shapes on the wire.
 *
 * What a newcomer would get wrong: the token is no field of a key. It is answered once, by create, and only its SHA-256 is kept.
 */
import { z } from 'zod';
import { limits } from './limits.ts';
import { type Scope, scopes } from './scope.ts';

/** Fits a path, a header and a terminal as it is; takes the names that people and mail systems give. */
export const ownerSchema = z.string().regex(/^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}$/, {
  error: 'owner must be 1 to 128 letters, digits and "_.@+-", and not begin with "." or "-"',
});

const timeSchema = z.iso.datetime({
  error: 'expires_at must be a time in UTC, such as 2030-01-31T12:00:00Z',
});

export const keyBodySchema = z.strictObject({
  name: z
    .string({ error: 'name must be a string' })
    .regex(/^[^\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]{1,128}$/u, {
      error: 'name must have 1 to 128 characters, and none that controls a terminal',
    })
    .describe('what it is for; for people'),
  owner: ownerSchema.describe('whose sandboxes it sees and makes'),
  scope: z.enum(scopes).describe('each scope includes those before it; "admin" sees every owner’s'),
  expires_at: timeSchema.nullish().describe('RFC 3339, UTC; none: it holds until it is removed'),
});
export type KeyBody = z.infer<typeof keyBodySchema>;

const keyShape = {
  id: z.string().describe('made by the daemon; no secret'),
  name: z.string(),
  owner: z.string(),
  scope: z.enum(scopes),
  created_at: z.string().describe('RFC 3339, UTC'),
  expires_at: z.string().nullable().describe('RFC 3339, UTC; null: it holds until it is removed'),
  last_used_at: z.string().nullable().describe('RFC 3339, UTC; null: never; written once a minute'),
};
export const keyInfoSchema = z.strictObject(keyShape);
export type KeyInfo = z.infer<typeof keyInfoSchema>;

export const keyCreatedSchema = z.strictObject({
  ...keyShape,
  token: z.string().describe('shown this once: whoever has it has the key'),
});
export type KeyCreated = z.infer<typeof keyCreatedSchema>;

export const keyListSchema = z.strictObject({
  items: z.array(keyInfoSchema),
  next: z.string().nullable().describe('`cursor` of the next page; null: there is none'),
});
export type KeyList = z.infer<typeof keyListSchema>;

/** What an owner's sandboxes may have together. Null: as much as there is. */
export const quotaSchema = z.strictObject({
  sandboxes: z.int().min(0).max(limits.sandboxesMax).nullable().describe('sandboxes that exist'),
  memory_mb: z.int().min(0).max(limits.quotaMbMax).nullable().describe('the sum of what they may use'),
  cpu: z.number().min(0).max(limits.quotaCpuMax).nullable().describe('the sum of their processors'),
  disk_mb: z
    .int()
    .min(0)
    .max(limits.quotaMbMax)
    .nullable()
    .describe(
      'the sum of what their writable layers may hold, their snapshots’ files and the sizes of volumes',
    ),
  execs: z.int().min(0).max(limits.quotaExecsMax).nullable().describe('commands that run at once'),
});
export type Quota = z.infer<typeof quotaSchema>;

/** As `quotaSchema`, of what is taken now. */
export const quotaUseSchema = z.strictObject({
  sandboxes: z.int(),
  memory_mb: z.number(),
  cpu: z.number(),
  disk_mb: z.number(),
  execs: z.int(),
});
export type QuotaUse = z.infer<typeof quotaUseSchema>;

/** A field that is left out is not bounded: the body is the whole quota. */
export const quotaBodySchema = quotaSchema.partial();
export type QuotaBody = z.infer<typeof quotaBodySchema>;

export const ownerInfoSchema = z.strictObject({
  owner: z.string(),
  keys: z.int().describe('how many keys it has'),
  quota: quotaSchema,
  use: quotaUseSchema,
});
export type OwnerInfo = z.infer<typeof ownerInfoSchema>;

export const ownerListSchema = z.strictObject({
  items: z.array(ownerInfoSchema),
  next: z.string().nullable().describe('`cursor` of the next page; null: there is none'),
});
export type OwnerList = z.infer<typeof ownerListSchema>;

export const keySelfSchema = z.strictObject({
  key: z
    .string()
    .nullable()
    .describe('null: you are the operator, by SQUASH_AUTH_TOKEN, socket or connection'),
  name: z.string().nullable(),
  owner: z.string().nullable(),
  scope: z.enum(scopes),
  expires_at: z.string().nullable(),
  quota: quotaSchema.nullable().describe('of the owner; null for the operator'),
  use: quotaUseSchema.nullable(),
});
export type KeySelf = z.infer<typeof keySelfSchema>;

/** A key as the daemon holds it while it answers: what the gate finds by a token. */
export interface HeldKey {
  readonly id: string;
  readonly name: string;
  readonly owner: string;
  readonly scope: Scope;
  /** Wall time; null: never. */
  readonly expiresMs: number | null;
}
