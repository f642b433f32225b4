/**
 * What a secret is: in `secrets.json` (the original's shape and one key more) and on the wire, where its value is
 * write-only.
 *
 * What a newcomer would get wrong: the placeholder is looked for in bytes that clients have escaped for URLs, JSON and
 * headers, so it consists of characters that none of these touch. And a value goes into header lines: a line break
 * in it would let whoever wrote it add headers.
 */
import { z } from 'zod';
import { type DestinationPattern, formatPattern, parsePattern } from './destination.ts';

/** Where in a request a placeholder is replaced. `headers` includes `Authorization: Basic`. */
export const secretSurfaces = ['headers', 'query', 'path', 'body'] as const;
export type SecretSurface = (typeof secretSurfaces)[number];

export const secretLimits = {
  /** A team's keys. With the two below what a command's environment holds for them stays under 28 KiB. */
  secretsMax: 128,
  nameCharsMax: 64,
  /** Of one sandbox's own: with all of the installation's a command's environment stays under 35 KiB for them. */
  ownSecretsMax: 32,
  /** Hosts of one secret. */
  hostsMax: 64,
  /** Shorter ones would be found in innocent text, in requests as in answers. */
  placeholderCharsMin: 8,
  placeholderCharsMax: 128,
  valueCharsMin: 8,
  /** The longest tokens in use have 4 KiB; servers refuse headers of 16. */
  valueCharsMax: 8_192,
  tokenUrlCharsMax: 2_048,
  clientIdCharsMax: 256,
} as const;

/** The name is the environment variable that holds the placeholder inside. */
export const secretNameSchema = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/, {
  error:
    'a secret’s name is that of an environment variable: letters, digits and "_", 64 at most, no digit first',
});

const placeholderSchema = z
  .string()
  .regex(/^[A-Za-z0-9._~-]+$/, { error: 'placeholder: letters, digits, ".", "_", "~" and "-" only' })
  .min(secretLimits.placeholderCharsMin)
  .max(secretLimits.placeholderCharsMax);

/** Also what a token of OAuth has to be, wherever it comes from. */
export const valueSchema = z
  .string()
  .regex(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/, {
    error: 'value: visible ASCII without spaces at its ends, as a header can carry it',
  })
  .min(secretLimits.valueCharsMin)
  .max(secretLimits.valueCharsMax);

const allowedHostSchema = z.string().transform((text, context) => {
  const parsed = parsePattern(text);
  const problem = !parsed.ok ? parsed.problem : hostProblem(parsed.pattern);
  if (problem === undefined && parsed.ok) return formatPattern(parsed.pattern);
  context.addIssue({ code: 'custom', message: `allowed_hosts: "${text.slice(0, 128)}" ${problem ?? ''}` });
  return z.NEVER;
});

/** Who gets a key is named one by one. */
function hostProblem({ target }: DestinationPattern): string | undefined {
  if (target.kind === 'host' || target.kind === 'subdomains') return undefined;
  if (target.kind === 'network' && /\/(32|128)$/.test(target.range)) return undefined;
  return 'is neither a host, "*.host" nor one address';
}

const allowedHostsSchema = z.array(allowedHostSchema).min(1).max(secretLimits.hostsMax);
const surfacesSchema = z
  .array(z.enum(secretSurfaces))
  .min(1)
  .transform((surfaces) => secretSurfaces.filter((surface) => surfaces.includes(surface)));

function isTokenUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || url.username !== '' || url.password !== '' || text.includes('#')) return false;
  const isHere = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/.test(url.hostname);
  return url.protocol === 'https:' || (url.protocol === 'http:' && isHere);
}

const visible = /^[\x20-\x7e]+$/;

/** A value that is refreshed on the host (RFC 6749, 6): the access token is what is put in. */
const oauthSchema = z.strictObject({
  token_url: z
    .string()
    .max(secretLimits.tokenUrlCharsMax)
    .refine(isTokenUrl, {
      error: 'token_url must be https (http on the loopback alone), without user, password and fragment',
    })
    .describe('where tokens are refreshed: https, or http on the host’s loopback'),
  client_id: z.string().regex(visible).max(secretLimits.clientIdCharsMax),
  client_secret: z
    .string()
    .regex(visible)
    .max(secretLimits.valueCharsMax)
    .optional()
    .describe('write-only; sent in the body'),
  refresh_token: valueSchema.describe('write-only'),
  access_token: valueSchema.optional().describe('write-only; none: one is fetched at the first request'),
  expires_at: z.iso
    .datetime({ offset: true, error: 'expires_at must be a time, such as 2030-01-31T12:00:00Z' })
    .optional()
    .describe('of `access_token`; none: when a host answers 401'),
  body: z
    .enum(['form', 'json'])
    .optional()
    .describe('how the endpoint takes the request; default: `form`, as RFC 6749 has it'),
});
export type OAuth = z.infer<typeof oauthSchema>;

const secretSchema = z
  .strictObject({
    placeholder: placeholderSchema,
    /** This or `oauth`. */
    value: valueSchema.optional(),
    oauth: oauthSchema.optional(),
    /** Canonical patterns: `api.example.com`, `*.example.com:443`. */
    allowed_hosts: allowedHostsSchema,
    surfaces: surfacesSchema.optional(),
  })
  .refine(({ value, oauth }) => (value === undefined) !== (oauth === undefined), {
    error: 'a secret has either "value" or "oauth"',
  })
  .refine(({ placeholder, value, oauth }) => !(value ?? oauth?.access_token ?? '').includes(placeholder), {
    error: 'the value contains the placeholder: nothing would be hidden',
  });
export type Secret = z.infer<typeof secretSchema>;

/** `secrets.json`, whole. */
export const secretsFileSchema = z
  .strictObject({
    secrets: z
      .record(secretNameSchema, secretSchema)
      .refine((secrets) => Object.keys(secrets).length <= secretLimits.secretsMax, {
        error: `${secretLimits.secretsMax} secrets at most`,
      }),
  })
  .superRefine(({ secrets }, context) => {
    const entries = Object.entries(secrets);
    for (const [name, { placeholder }] of entries) {
      const other = entries.find(
        ([each, secret]) => each !== name && secret.placeholder.includes(placeholder),
      );
      if (other === undefined) continue;
      context.addIssue({
        code: 'custom',
        message: `the placeholder of "${name}" is part of that of "${other[0]}": which one is meant could not be told`,
      });
      return;
    }
  });
export type SecretsFile = z.infer<typeof secretsFileSchema>;

/** Secrets of one sandbox alone, by name. Each placeholder is made here, so that none can be part of another one's. */
export const ownSecretsSchema = z
  .record(
    secretNameSchema,
    z.strictObject({
      value: valueSchema.describe('write-only'),
      allowed_hosts: allowedHostsSchema.describe(
        '`host`, `*.host`, an address, each with an optional `:port`',
      ),
      surfaces: surfacesSchema.optional().describe('default: headers, also inside `Authorization: Basic`'),
    }),
  )
  .refine((secrets) => Object.keys(secrets).length <= secretLimits.ownSecretsMax, {
    error: `own_secrets: ${secretLimits.ownSecretsMax} at most`,
  });
export type OwnSecrets = z.infer<typeof ownSecretsSchema>;

/** Which secrets a sandbox may use: all there are at the time, or these, whether they exist yet or not. */
export const secretSubsetSchema = z.union([
  z.literal('all'),
  z.array(secretNameSchema).max(secretLimits.secretsMax),
]);
export type SecretSubset = z.infer<typeof secretSubsetSchema>;

/** A secret as it is shown: never its value. */
export const secretInfoSchema = z.strictObject({
  name: z.string(),
  placeholder: z.string().describe('what sandboxes see in the variable of this name'),
  allowed_hosts: z.array(z.string()),
  surfaces: z.array(z.enum(secretSurfaces)).describe('where it is put in'),
  token_url: z.string().optional().describe('where its value is refreshed; none: it has a fixed one'),
});
export type SecretInfo = z.infer<typeof secretInfoSchema>;

/** What `PUT /v1/secrets/{name}` takes. What is left out stays as it is; a new secret needs value and hosts. */
export const secretChangeSchema = z.strictObject({
  value: valueSchema.optional().describe('write-only'),
  oauth: oauthSchema
    .optional()
    .describe('in place of `value`: an OAuth 2 credential whose access token is refreshed on the host'),
  placeholder: placeholderSchema.optional().describe('default: a random one'),
  allowed_hosts: allowedHostsSchema
    .optional()
    .describe('`host`, `*.host`, an address, each with an optional `:port`'),
  surfaces: surfacesSchema.optional().describe('default: headers, also inside `Authorization: Basic`'),
});
export type SecretChange = z.infer<typeof secretChangeSchema>;
