/**
 * Public keys that log in over SSH, and what the gateway of SSH asks about a login: shapes on the wire.
 *
 * What a newcomer would get wrong: the gateway decides nothing. It hands on what a client has signed; the daemon knows the key, looks at
 * the signature and lends a credential of that key's owner and scope for as long as the connection stands.
 */
import { z } from 'zod';
import { keyBodySchema } from './keys.ts';
import { sshLimits } from './ssh-limits.ts';

export const sshScopes = ['exec', 'manage'] as const;

const publicKeySchema = z
  .string({ error: 'public_key must be a string' })
  .max(sshLimits.publicKeyCharsMax)
  .describe('a line as in a file `id_ed25519.pub`: `ssh-ed25519 AAAA… comment`');

export const sshKeyBodySchema = z.strictObject({
  name: keyBodySchema.shape.name,
  owner: keyBodySchema.shape.owner,
  scope: z.enum(sshScopes).default('exec').describe('`manage`: also what a key of that scope may'),
  public_key: publicKeySchema,
  expires_at: keyBodySchema.shape.expires_at,
});
export type SshKeyBody = z.output<typeof sshKeyBodySchema>;
export type SshKeyWish = z.input<typeof sshKeyBodySchema>;

export const sshKeySchema = z.strictObject({
  id: z.string().describe('made by the daemon; no secret'),
  name: z.string(),
  owner: z.string(),
  scope: z.enum(sshScopes),
  public_key: z.string().describe('without its comment'),
  fingerprint: z.string().describe('as `ssh-keygen -l` shows it'),
  created_at: z.string().describe('RFC 3339, UTC'),
  expires_at: z.string().nullable().describe('RFC 3339, UTC; null: it holds until it is removed'),
  last_used_at: z.string().nullable().describe('RFC 3339, UTC; null: never since the daemon started'),
});
export type SshKey = z.infer<typeof sshKeySchema>;

export const sshKeyListSchema = z.strictObject({
  items: z.array(sshKeySchema),
  next: z.string().nullable().describe('`cursor` of the next page; null: there is none'),
});
export type SshKeyList = z.infer<typeof sshKeyListSchema>;

const base64Schema = z
  .string()
  .max(sshLimits.publicKeyCharsMax)
  .regex(/^[A-Za-z0-9+/]+={0,2}$/, { error: 'must be base64' });

export const sshOfferBodySchema = z.strictObject({
  key: base64Schema.describe('the key as it is sent over SSH'),
});

export const sshLoginBodySchema = z.strictObject({
  signed: base64Schema.describe('what the client has signed: session id and request, as RFC 4252 has it'),
  signature: base64Schema,
});

export const sshLoginSchema = z.strictObject({
  token: z.string().describe('for `Authorization: Bearer`; holds some minutes behind its last use'),
  key: z.string().describe('the id of the key'),
  sandbox: z.string().describe('from the user’s name: `SANDBOX` or `USER+SANDBOX`'),
  user: z.string().nullable().describe('of the sandbox; null: root'),
});
export type SshLogin = z.infer<typeof sshLoginSchema>;
