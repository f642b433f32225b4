/**
 * Policies, decisions and presets on the wire of `/v1`: what a sandbox may reach, what it asked for, and why it was
 * answered as it was.
 */
import { z } from 'zod';
import { parsePattern } from './destination.ts';
import { queryFlag } from './operations/query.ts';
import { policySchema } from './policy.ts';
import { secretSubsetSchema } from './secrets.ts';

export const ruleAnswerSchema = z.union([
  z.string(),
  z.strictObject({
    to: z.array(z.string()),
    ports: z.array(z.string()).optional(),
    methods: z.array(z.string()).optional(),
    paths: z.array(z.string()).optional(),
    upgrades: z.array(z.string()).optional(),
  }),
]);

/** A policy as it is answered: every rule in its canonical spelling. */
export const policyAnswerSchema = z.strictObject({
  allow: z.array(ruleAnswerSchema),
  deny: z.array(ruleAnswerSchema),
  ask: z.array(ruleAnswerSchema).optional().describe('left out where nobody is asked'),
  dns: z.enum(['refuse', 'nxdomain']),
  ask_timeout_ms: z.int().optional(),
});

export const sandboxPolicySchema = z.strictObject({
  policy: policyAnswerSchema,
  ceiling: policyAnswerSchema
    .nullable()
    .describe('what no sandbox’s policy can exceed; null where there is none'),
  secrets: secretSubsetSchema.describe('names of the secrets of the installation it may use, or `all`'),
  own_secrets: z.array(z.string()).describe('names of secrets of its own'),
  own_secret_hosts: z
    .record(z.string(), z.array(z.string()))
    .describe('the hosts that may have them, by name; empty where their file can not be used'),
  upstream: z.string().nullable().describe('name of the proxy that it goes out through; null: none'),
  in_force: z
    .boolean()
    .describe(
      'false while the egress process does not answer or can not use this: then nothing is reached, and this holds when that is mended',
    ),
  pending: z.string().nullable().describe('why it is not in force, and what mends that; null: it is'),
});
export type SandboxPolicy = z.infer<typeof sandboxPolicySchema>;

/** Longest URL that is tested: what servers take. */
const urlCharsMax = 8_192;

const questionSchema = z
  .string()
  .max(urlCharsMax)
  .transform((text, context) => {
    const question = parseQuestion(text);
    if (question !== undefined) return question;
    context.addIssue({
      code: 'custom',
      message: `to: "${text.slice(0, 128)}" is neither "host:port", "address:port" nor a URL of http or https`,
    });
    return z.NEVER;
  });

export const policyTestBodySchema = z.strictObject({
  to: questionSchema.describe('`host:port`, `address:port`, or a URL of http or https'),
  method: z
    .string()
    .regex(/^[A-Za-z][A-Za-z-]{0,31}$/, { error: 'method: no HTTP method' })
    .transform((method) => method.toUpperCase())
    .default('GET'),
  policy: policySchema.optional().describe('tried instead of the sandbox’s own'),
});

/** What a program would ask for. */
export interface PolicyQuestion {
  readonly host: string | undefined;
  readonly address: string | undefined;
  readonly port: number;
  /** Known where a URL was given. */
  readonly path: string | undefined;
}

function parseQuestion(text: string): PolicyQuestion | undefined {
  const isUrl = /^https?:\/\//i.test(text);
  const url = isUrl && URL.canParse(text) ? new URL(text) : undefined;
  if (isUrl && url === undefined) return undefined;
  const scheme = url?.protocol === 'http:' ? 80 : 443;
  const port = url === undefined ? undefined : Number(url.port || scheme);
  const parsed = parsePattern(url?.hostname ?? text);
  if (!parsed.ok) return undefined;
  const { target, ports } = parsed.pattern;
  const place = {
    port: port ?? ports?.first ?? scheme,
    path: url === undefined ? undefined : decodedPath(url),
  };
  if (target.kind === 'host') return { host: target.host, address: undefined, ...place };
  const [, address] = target.kind === 'network' ? (/^(.*)\/(?:32|128)$/.exec(target.range) ?? []) : [];
  return address === undefined ? undefined : { host: undefined, address, ...place };
}

function decodedPath({ pathname }: URL): string {
  try {
    return decodeURIComponent(pathname);
  } catch {
    // A "%" that escapes nothing is compared as it stands.
    return pathname;
  }
}

export const policyTestAnswerSchema = z.strictObject({
  allowed: z.boolean(),
  asked: z.literal(true).optional().describe('it is allowed where a person says so'),
  host: z.string().nullable(),
  address: z.string().nullable(),
  port: z.int(),
  steps: z
    .array(
      z.strictObject({
        step: z.enum(['name', 'connection', 'request', 'address']).describe('what is decided, in this order'),
        allowed: z.boolean(),
        asked: z.literal(true).optional().describe('a person is asked'),
        rule: z.string().describe('the rule of the policy, or a code such as `not_allowed`'),
        address: z.string().optional().describe('of an `address` step: one that would be dialled'),
        remedy: z.string().optional().describe('who would have to name that address, and how'),
      }),
    )
    .describe('up to the first refusal; of several addresses one has to be allowed'),
  not_resolved: z
    .string()
    .nullable()
    .describe('why no address was judged, where none was; null where every one was'),
  reads_requests: z.boolean().describe('TLS to it is read, because a rule has methods or paths'),
});
export type PolicyTestAnswer = z.infer<typeof policyTestAnswerSchema>;

export const policyLearnAnswerSchema = z.strictObject({
  policy: policyAnswerSchema.describe('the smallest policy under which all that was asked for is allowed'),
  seen: z.array(
    z.strictObject({
      destination: z.string().describe('`host:port`'),
      count: z.int(),
      refused: z.int().describe('how many of them were'),
    }),
  ),
  left_out: z.array(z.strictObject({ what: z.string(), why: z.string() })),
});
export type PolicyLearnAnswer = z.infer<typeof policyLearnAnswerSchema>;

export const presetInfoSchema = z.strictObject({
  name: z.string(),
  summary: z.string(),
  hosts: z.array(z.string()),
  date: z.string().describe('when the list was last gone over'),
  sources: z.string(),
});

export const decisionKinds = ['dns', 'connection', 'request'] as const;
export const decisionVerdicts = ['allowed', 'denied', 'blocked'] as const;
export const askedVerdicts = [...decisionVerdicts, 'refused'] as const;

/** One decision of the egress process. `id` grows and is never used again. */
export const egressDecisionInfoSchema = z.strictObject({
  id: z.int(),
  time: z.string().describe('RFC 3339, UTC: when it was decided'),
  kind: z.enum(decisionKinds),
  host: z.string().nullable(),
  address: z.string().nullable(),
  port: z.int().nullable(),
  method: z.string().nullable(),
  path: z.string().nullable().describe('without the query'),
  verdict: z
    .enum(decisionVerdicts)
    .describe('`blocked`: a placeholder was on its way to a host that may not have its secret'),
  rule: z.string().describe('the rule that decided, or a code'),
  bytes_up: z.int().nullable(),
  bytes_down: z.int().nullable(),
  duration_ms: z.number().nullable(),
  secrets: z
    .array(z.string())
    .describe('names of secrets that were put in, and of the one whose placeholder was blocked'),
  count: z.int().describe('equal ones that came at once'),
});
export type EgressDecisionInfo = z.infer<typeof egressDecisionInfoSchema>;

export const egressDecisionsSchema = z.strictObject({
  decisions: z.array(egressDecisionInfoSchema),
  removed_before: z.int().describe('rows with smaller ids were removed to stay in bounds; 0: none were'),
});

/** Rows of one answer. */
export const decisionsMax = 1_000;

export const egressQueryShape = {
  kind: z.enum(decisionKinds, { error: `kind must be one of ${decisionKinds.join(', ')}` }).optional(),
  verdict: z
    .enum(askedVerdicts, { error: `verdict must be one of ${askedVerdicts.join(', ')}` })
    .optional()
    .describe('`refused`: denied or blocked'),
  host: z.string().min(1).max(255).optional().describe('a name, or `*.example.com` for names below it'),
  follow: queryFlag('follow').describe('`true`: server-sent events, each decision as it comes'),
};
