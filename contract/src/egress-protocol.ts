/**
 * What the daemon says to the egress process, and hears from it: HTTP with JSON on `run/egress-api.sock`.
 *
 * | request | body → answer |
 * |---|---|
 * | `PUT /sync` | `EgressSync` → `EgressSynced`: the whole truth. The first one opens `run/egress.sock` |
 * | `PUT /sandboxes` | `EgressChanges` → `EgressChanged`: sandboxes that are new or changed. One that is refused keeps its old rules |
 * | `DELETE /sandboxes/{id}` | → `EgressApplied`: its connections end, its addresses and decisions are forgotten |
 * | `POST /judge` | `EgressQuestion` → `EgressJudged`: where a destination leads, and which of the addresses may be dialled |
 * | `GET /decisions?…` | `EgressDecisionQuery` → `EgressDecisions`, or with `Accept: text/event-stream` a stream of them |
 * | `POST /traffic` | ids of sandboxes → `EgressTraffic`: what each has sent and received |
 * | `GET /questions` | a stream: `open` with all that wait for a person, then `asked` and `ended`, each as it comes |
 * | `POST /questions/{question}` | `EgressAnswer` → `{}`; 404 where nobody waits for it any more |
 * | `GET /callers?…` | `EgressOffer`: a port that is offered for as long as the stream stands: `offered`, then `connection` and `broken` with an `EgressCallerEvent` |
 * | `GET /callers/{connection}` | with `Upgrade: squash-bytes` → 101, and the connection's bytes; 404 where it does not wait |
 * | `DELETE /callers/{connection}` | → `{}`: the program gets a reset |
 * | `GET /stats` | → `EgressStats` |
 * | `POST /stop` | → `{}`, then the process ends |
 *
 * A refusal is status 400, 404 or 409 with `EgressRefusal`. What a newcomer would get wrong: the order of two
 * `PUT`s for one sandbox is the daemon's to keep; the process takes each as it comes. Only the daemon's user id may
 * connect (mode 0600 of the socket), so there is no token.
 */
import { z } from 'zod';
import { askedVerdicts, decisionKinds, decisionVerdicts } from './egress.ts';
import { sandboxIdSchema } from './ids.ts';
import { ownPresetsSchema } from './own-presets.ts';
import { upstreamsSchema } from './upstreams.ts';

/** Relative to the run directory. */
export const egressSockets = { api: 'egress-api.sock', relays: 'egress.sock' } as const;

/** A policy in its full form, as it is stored and shown. Its own schema parses it where it is compiled. */
const policySource = z.json();

/** Names of secrets that a sandbox may use; `all` is the default of `secrets.json`. */
const secretSubset = z.union([z.literal('all'), z.array(z.string().min(1).max(256)).max(1_024)]);

/** What its policy names of the host's loopback is permitted. Left out: it is not. */
const reachesHost = z.boolean().optional();

export const egressSandboxRulesSchema = z.strictObject({
  policy: policySource,
  secrets: secretSubset,
  /** Names of secrets of its own, whose file the process reads itself. Left out: none. */
  ownSecrets: z.array(z.string().min(1).max(256)).max(1_024).optional(),
  /** Name of the proxy it goes out through. Left out: the default one, where there is one. */
  upstream: z.string().max(64).nullable().optional(),
  reachesHost,
});
export type EgressSandboxRules = z.infer<typeof egressSandboxRulesSchema>;

/** Some of all: what is known of others stays. The daemon's own bound is far below (limits.sandboxesMax). */
export const egressChangesSchema = z
  .array(egressSandboxRulesSchema.extend({ id: sandboxIdSchema }))
  .max(10_000);
export type EgressChanges = z.infer<typeof egressChangesSchema>;

const listenerSchema = z.strictObject({
  /** `0.0.0.0` or `::` for all of the host's; what is no address counts as that. */
  address: z.string().max(256),
  port: z.int().min(1).max(65_535),
});
export type Listener = z.infer<typeof listenerSchema>;

export const egressSyncSchema = z.strictObject({
  /** What no sandbox's policy can exceed; null where the operator set none. */
  ceiling: policySource.nullable(),
  /** Private or reserved ranges that policies may reach: `SQUASH_EGRESS_ALLOW_CIDRS`, already split. */
  allowCidrs: z.array(z.string().max(64)).max(1_024),
  /** Where the daemon listens on TCP: no policy reaches that. A daemon of an earlier version does not say. */
  listeners: z.array(listenerSchema).max(16).optional(),
  /** Rules that answer what policies ask: approved for all sandboxes. A daemon of an earlier version does not say. */
  approved: z.array(z.json()).max(4_096).optional(),
  /** The operator's own presets, which policies and the ceiling may name. */
  presets: ownPresetsSchema.optional(),
  /** The operator's proxies; their URLs hold passwords. */
  upstreams: upstreamsSchema.optional(),
  /** False: no TLS is intercepted, secrets reach plain HTTP only (`SQUASH_PROXY_HTTPS=0`). */
  interceptsTls: z.boolean(),
  /** Every sandbox there is. What is known of others is forgotten. */
  sandboxes: egressChangesSchema,
});
export type EgressSync = z.infer<typeof egressSyncSchema>;

export const egressSyncedSchema = z.object({
  /** Sandboxes whose policy could not be compiled: everything is refused to them until a good one comes. */
  problems: z.array(z.object({ id: z.string(), message: z.string() })),
});
export type EgressSynced = z.infer<typeof egressSyncedSchema>;

/** `closed`: open connections that the new rules do not allow, and which were ended. */
export const egressAppliedSchema = z.object({ closed: z.int() });
export type EgressApplied = z.infer<typeof egressAppliedSchema>;

/** `problems`: sandboxes whose rules can't be had, and why. */
export const egressChangedSchema = egressSyncedSchema.extend(egressAppliedSchema.shape);
export type EgressChanged = z.infer<typeof egressChangedSchema>;

export const egressRefusalSchema = z.object({ code: z.string(), message: z.string() });
export type EgressRefusal = z.infer<typeof egressRefusalSchema>;

/** What would be dialled under a policy. The name is one that the policy allows: others are not looked up. */
export const egressQuestionSchema = z.strictObject({
  policy: policySource,
  reachesHost,
  host: z.string().max(255).nullable(),
  /** Where there is no `host`. */
  address: z.string().max(64).nullable(),
  port: z.int().min(1).max(65_535),
});
export type EgressQuestion = z.infer<typeof egressQuestionSchema>;

export const egressJudgedSchema = z.object({
  addresses: z.array(z.object({ address: z.string(), allowed: z.boolean(), rule: z.string() })),
  /** The resolver's word where there is no address: `ENOTFOUND`, `ETIMEOUT` … */
  code: z.string().nullable(),
});
export type EgressJudged = z.infer<typeof egressJudgedSchema>;

/** What waits for a person. Texts are the program's: escaped by whoever shows them. */
export const egressAskedSchema = z.object({
  /** Never used again. */
  id: z.string(),
  sandbox: z.string(),
  host: z.string().nullable(),
  address: z.string().nullable(),
  port: z.int(),
  /** Of the first request that waits; null: a connection does. */
  method: z.string().nullable(),
  path: z.string().nullable(),
  /** Of `ask`. */
  rule: z.string(),
  /** What an answer is about, where it is less than all of host and port. */
  grant: z.object({
    method: z.string().nullable(),
    path: z.string().nullable(),
    upgrades: z.array(z.string()),
  }),
  asked_ms: z.int(),
  expires_ms: z.int(),
});
export type EgressAsked = z.infer<typeof egressAskedSchema>;

export const egressQuestionEndSchema = z.object({
  id: z.string(),
  /** `withdrawn`: nobody waits any more. `answered`: by `POST /questions/{question}`. */
  end: z.enum(['answered', 'timed_out', 'withdrawn']),
});
export type EgressQuestionEnd = z.infer<typeof egressQuestionEndSchema>;

export const egressAnswerSchema = z.strictObject({ allow: z.boolean() });
export type EgressAnswer = z.infer<typeof egressAnswerSchema>;

/** As query parameters: of which sandbox, and which port of `caller.squash.internal`. */
export const egressOfferSchema = z.strictObject({
  sandbox: sandboxIdSchema,
  port: z.coerce.number().int().min(1).max(65_535),
});
export type EgressOffer = z.infer<typeof egressOfferSchema>;

/** Null: of the offer itself. */
export const egressCallerEventSchema = z.object({ connection: z.string().nullable() });

/** What the socket of a connection to a caller changes to. Half-closed by its ends; what breaks off is said beside it. */
export const bytesProtocol = 'squash-bytes';

/** One row. `id` grows and is never used again; what is not known or does not apply is null. */
export const egressDecisionSchema = z.object({
  id: z.int(),
  /** RFC 3339, UTC: when the decision was made, not when the connection ended. */
  time: z.string(),
  sandbox: z.string(),
  kind: z.enum(decisionKinds),
  host: z.string().nullable(),
  address: z.string().nullable(),
  port: z.int().nullable(),
  method: z.string().nullable(),
  /** Without the query. */
  path: z.string().nullable(),
  verdict: z.enum(decisionVerdicts),
  rule: z.string(),
  bytes_up: z.int().nullable(),
  bytes_down: z.int().nullable(),
  duration_ms: z.number().nullable(),
  /** Names of secrets that were put in, and of the one whose placeholder was blocked. */
  secrets: z.array(z.string()),
  /** Equal rows that came at once are one row: how many they were. */
  count: z.int(),
});
export type EgressDecision = z.infer<typeof egressDecisionSchema>;

/** As query parameters. */
export const egressDecisionQuerySchema = z.strictObject({
  sandbox: sandboxIdSchema.optional(),
  /** Only rows with a larger id. A follower gives the last id it has seen. */
  after: z.coerce.number().int().min(0).optional(),
  kind: z.enum(decisionKinds).optional(),
  /** `refused`: denied or blocked. */
  verdict: z.enum(askedVerdicts).optional(),
  /** Exact name, or `*.example.com` for names below. */
  host: z.string().min(1).max(255).optional(),
  /** Without `after` the newest rows, with it the next ones; always in the order of their ids. */
  limit: z.coerce.number().int().min(1).max(1_000).default(100),
});
export type EgressDecisionQuery = z.infer<typeof egressDecisionQuerySchema>;

/**
 * The answer without `Accept: text/event-stream`. With it: rows after `after` (without: the newest `limit`), then
 * each new one, as events `decision` whose `id:` is the row's and whose `data:` is the row.
 */
export const egressDecisionsSchema = z.object({
  decisions: z.array(egressDecisionSchema),
  /** Rows with smaller ids were removed to stay in bounds; 0: none were. */
  removed_before: z.int(),
});
export type EgressDecisions = z.infer<typeof egressDecisionsSchema>;

/** Who answers. Of any version: this is how a daemon finds out that it has to replace the process. Never changes. */
export const egressIdentitySchema = z.object({ version: z.string(), pid: z.int(), started: z.string() });
export type EgressIdentity = z.infer<typeof egressIdentitySchema>;

export const egressTrafficQuestionSchema = z.array(sandboxIdSchema).max(10_000);

/** Since the process started, bytes of connections that have ended. A sandbox that nobody has spoken of is left out. */
export const egressTrafficSchema = z.array(
  z.object({
    id: sandboxIdSchema,
    connections: z.int(),
    open: z.int(),
    bytes_up: z.int(),
    bytes_down: z.int(),
  }),
);
export type EgressTraffic = z.infer<typeof egressTrafficSchema>;

export const egressStatsSchema = z.object({
  ...egressIdentitySchema.shape,
  /** False until the first `PUT /sync`: no relay is listened to. */
  synced: z.boolean(),
  /** The channel over which connections are dialled. */
  launcher: z.boolean(),
  sandboxes: z.int(),
  relays: z.int(),
  connections: z.object({
    /** Being decided or dialled; tunnelled; read by the interceptor. */
    pending: z.int(),
    tunnelled: z.int(),
    intercepted: z.int(),
    /** Since the process started. */
    total: z.int(),
    refused: z.int(),
  }),
  dns: z.object({ queries: z.int(), refused: z.int(), dropped: z.int(), upstream: z.int() }),
  decisions: z.object({ stored: z.int(), dropped: z.int() }),
  questions: z.object({
    /** Now: questions, and the connections and requests that wait for them. */
    open: z.int(),
    waiting: z.int(),
    /** Since the process started. */
    asked: z.int(),
    /** Connections and requests: denied, timed out, or too many. */
    refused: z.int(),
  }),
  memory: z.object({ rss_bytes: z.int(), heap_bytes: z.int() }),
  /** What an operator should know: `secrets.json` has a bad edit, a resolver does not answer. */
  warnings: z.array(z.string()),
});
export type EgressStats = z.infer<typeof egressStatsSchema>;
