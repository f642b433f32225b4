/** Reading the audit: who asked for what, and whether he might. */
import { z } from 'zod';
import { auditDecisions, auditListSchema } from '../audit.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape } from './query.ts';

const text = (name: string) =>
  z
    .string()
    .min(1, { error: `${name} must not be empty` })
    .max(256, { error: `${name}: 256 characters at most` });

const auditList = defineOperation({
  id: 'audit.list',
  method: 'GET',
  path: '/v1/audit',
  dialect: 'native',
  summary: 'Who asked for what, and whether he might; newest first',
  query: z.strictObject({
    ...pageShape,
    owner: text('owner').optional().describe('only what this owner’s keys asked'),
    sandbox: text('sandbox').optional().describe('only about this sandbox'),
    operation: text('operation').optional().describe('only this operation, such as `sandbox.create`'),
    decision: z
      .enum(auditDecisions, { error: `decision must be one of ${auditDecisions.join(', ')}` })
      .optional()
      .describe('only what was decided so'),
    of: z
      .enum(['requests', 'agents'], { error: 'of must be requests or agents' })
      .optional()
      .describe('`agents`: what agents of groups asked for; else requests of clients'),
    since: z.iso
      .datetime({ error: 'since must be a time in UTC, such as 2030-01-31T12:00:00Z' })
      .optional()
      .describe('only from this time on'),
  }),
  answers: [{ status: 200, description: 'Lines of the audit', schema: auditListSchema }],
  errors: [],
  permission: 'admin',
});

export const auditOperations = { 'audit.list': auditList } as const satisfies Operations;
