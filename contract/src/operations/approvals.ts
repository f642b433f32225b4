/** The operations on what waits for a person. Here `{approval}` is one question, `{standing}` a rule for all sandboxes. */
import { z } from 'zod';
import {
  approvalDecisionSchema,
  approvalIdSchema,
  approvalPageSchema,
  approvalSchema,
  approvalStates,
  standingApprovalSchema,
} from '../approvals.ts';
import { sandboxIdSchema } from '../ids.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape } from './query.ts';

const approvalParams = z.strictObject({ approval: approvalIdSchema });

const approvalList = defineOperation({
  id: 'approval.list',
  method: 'GET',
  path: '/v1/approvals',
  dialect: 'native',
  summary: 'What waits for a person, and what was decided lately, newest first',
  query: z.strictObject({
    ...pageShape,
    state: z.enum(approvalStates, { error: `state must be one of ${approvalStates.join(', ')}` }).optional(),
    sandbox: sandboxIdSchema.optional(),
  }),
  answers: [{ status: 200, description: 'Approvals', schema: approvalPageSchema }],
  errors: [],
  permission: 'read',
});

const approvalGet = defineOperation({
  id: 'approval.get',
  method: 'GET',
  path: '/v1/approvals/{approval}',
  dialect: 'native',
  summary: 'One approval',
  params: approvalParams,
  answers: [{ status: 200, description: 'The approval', schema: approvalSchema }],
  errors: ['approval_not_found'],
  permission: 'read',
});

const approvalDecide = defineOperation({
  id: 'approval.decide',
  method: 'POST',
  path: '/v1/approvals/{approval}',
  dialect: 'native',
  summary: 'Let through what waits, or refuse it',
  description:
    'The same decision again is answered as the first was. Whatever is allowed, addresses are judged as ever: a name that leads to a private one stays refused.',
  params: approvalParams,
  body: approvalDecisionSchema,
  answers: [{ status: 200, description: 'The approval as it is now', schema: approvalSchema }],
  errors: [
    'approval_not_found',
    'approval_expired',
    'approval_decided',
    'sandbox_not_found',
    'forbidden',
    'egress_unavailable',
    'disk_full',
  ],
  permission: 'manage',
  example: { body: { decision: 'allow', scope: 'once' } },
});

const standingList = defineOperation({
  id: 'approval.standing_list',
  method: 'GET',
  path: '/v1/standing-approvals',
  dialect: 'native',
  summary: 'What is approved for every sandbox whose policy asks',
  answers: [{ status: 200, description: 'The rules', schema: z.array(standingApprovalSchema) }],
  errors: [],
  permission: 'admin',
});

const standingRemove = defineOperation({
  id: 'approval.standing_remove',
  method: 'DELETE',
  path: '/v1/standing-approvals/{standing}',
  dialect: 'native',
  summary: 'Ask again for what was approved for all; connections that it let through are ended',
  params: z.strictObject({
    standing: z
      .string()
      .regex(/^[1-9]\d{0,14}$/, { error: 'standing must be a number' })
      .transform(Number),
  }),
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['approval_not_found', 'disk_full'],
  permission: 'admin',
});

export const approvalOperations = {
  'approval.list': approvalList,
  'approval.get': approvalGet,
  'approval.decide': approvalDecide,
  'approval.standing_list': standingList,
  'approval.standing_remove': standingRemove,
} as const satisfies Operations;
