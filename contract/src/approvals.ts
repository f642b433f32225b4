/**
 * What waits for a person, and what was said of it, on the wire of `/v1`.
 *
 * Host and path are what a program in a sandbox chose. In JSON they are as they are; whoever shows them escapes them.
 */
import { z } from 'zod';
import { ruleAnswerSchema } from './egress.ts';
import { limits } from './limits.ts';

export const approvalStates = ['pending', 'allowed', 'denied', 'timed_out', 'withdrawn'] as const;
export const approvalScopes = ['once', 'sandbox', 'always'] as const;
export type ApprovalScope = (typeof approvalScopes)[number];

export const approvalIdSchema = z.string().regex(/^appr_[0-9a-f]{20}$/, {
  error: ({ input }) =>
    `"${String(input)}" is no id of an approval, which is "appr_" and 20 hexadecimal digits`,
});

export const approvalSchema = z.strictObject({
  id: z.string(),
  sandbox: z.string(),
  state: z
    .enum(approvalStates)
    .describe('`timed_out`: nobody answered; `withdrawn`: nobody waits any more, or a process has ended'),
  host: z.string().nullable(),
  address: z.string().nullable().describe('where there is no `host`'),
  port: z.int(),
  method: z.string().nullable().describe('of the request that waits; null: a connection does'),
  path: z.string().nullable().describe('without the query'),
  rule: z.string().describe('the rule of `ask` in the sandbox’s policy'),
  grant: ruleAnswerSchema.describe('the rule that an answer for longer than once adds'),
  asked_at: z.string(),
  expires_at: z.string(),
  scope: z.enum(approvalScopes).nullable(),
  reason: z.string().nullable(),
  decided_at: z.string().nullable(),
  decided_by: z.string().nullable().describe('id of a key, or `operator`; null: nobody'),
});
export type ApprovalInfo = z.infer<typeof approvalSchema>;

export const approvalPageSchema = z.strictObject({
  items: z.array(approvalSchema),
  next: z.string().nullable(),
});

export const approvalDecisionSchema = z.strictObject({
  decision: z.enum(['allow', 'deny']),
  scope: z
    .enum(approvalScopes)
    .default('once')
    .describe(
      '`once`: who waits now; `sandbox`: its policy gets `grant`; `always`: every sandbox whose policy asks, which takes the scope admin. A denial is for once',
    ),
  reason: z.string().max(limits.approvalReasonCharsMax).optional().describe('for whoever looks back'),
});
export type ApprovalDecision = z.output<typeof approvalDecisionSchema>;

/** A rule that answers what policies ask, in all sandboxes. */
export const standingApprovalSchema = z.strictObject({
  id: z.int(),
  rule: ruleAnswerSchema,
  decided_at: z.string(),
  decided_by: z.string(),
});
export type StandingApproval = z.infer<typeof standingApprovalSchema>;
