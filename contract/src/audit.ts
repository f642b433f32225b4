/** One line of the audit, as it lies in the file and as it is answered. */
import { z } from 'zod';
import { scopes } from './scope.ts';

export const auditDecisions = ['allowed', 'refused', 'held'] as const;

const callerSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('operator') }),
  z.strictObject({
    kind: z.literal('key'),
    key: z.string(),
    name: z.string(),
    owner: z.string(),
    scope: z.enum(scopes),
  }),
  z.strictObject({ kind: z.literal('unknown') }).describe('nobody whom the daemon knows'),
  z
    .strictObject({ kind: z.literal('agent'), group: z.string(), run: z.int() })
    .describe('of a group, over its channel; such lines are in files of their own'),
]);
export type AuditCaller = z.infer<typeof callerSchema>;

export const auditEntrySchema = z.strictObject({
  at: z.string().describe('RFC 3339, UTC: when it was answered'),
  request_id: z.string().describe('as in the answer’s header `squash-request-id`'),
  caller: callerSchema,
  peer: z.strictObject({
    address: z.string().describe('`unix`, or the address that the connection came from'),
    uid: z.int().nullable().describe('of a client on this machine, where the daemon has asked the kernel'),
  }),
  operation: z.string().nullable().describe('null: the request reached none'),
  sandbox: z.string().nullable().describe('as the client named it, 128 characters at most'),
  stage: z
    .enum(['whole', 'start', 'end'])
    .describe('a WebSocket has a line when it begins and one when it ends, all else one'),
  decision: z.enum(auditDecisions).describe('whether the caller may do that; `held`: a person is asked'),
  code: z.string().nullable().describe('of the error that was answered'),
  status: z.int(),
  duration_ms: z.number(),
  action: z
    .int()
    .nullable()
    .optional()
    .describe('of an agent: its number, as in `group.actions`; null: it has none'),
  rule: z.string().optional().describe('which rule decided on the action'),
  dropped: z
    .int()
    .optional()
    .describe('refusals at the gate since the line before that have no line: there were too many'),
  lost: z.int().optional().describe('lines since the line before that could not be written'),
});
export type AuditEntry = z.infer<typeof auditEntrySchema>;

export const auditListSchema = z.strictObject({
  items: z.array(auditEntrySchema).describe('newest first'),
  next: z
    .string()
    .nullable()
    .describe(
      '`cursor` of what is older; there may be one behind a page that is empty, as each looks at so many bytes',
    ),
});
export type AuditList = z.infer<typeof auditListSchema>;

export interface AuditFilters {
  readonly owner?: string | undefined;
  readonly sandbox?: string | undefined;
  readonly operation?: string | undefined;
  readonly decision?: (typeof auditDecisions)[number] | undefined;
  /** RFC 3339. */
  readonly since?: string | undefined;
}
