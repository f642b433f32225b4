/** The operations on what sandboxes may reach and did reach. */
import { z } from 'zod';
import {
  decisionsMax,
  egressDecisionInfoSchema,
  egressDecisionsSchema,
  egressQueryShape,
  policyLearnAnswerSchema,
  policyTestAnswerSchema,
  policyTestBodySchema,
  presetInfoSchema,
  sandboxPolicySchema,
} from '../egress.ts';
import { policyShape } from '../policy.ts';
import { defineOperation, type Operations } from './operation.ts';
import { queryInteger } from './query.ts';
import { sandboxParams } from './sandboxes.ts';

const policyGet = defineOperation({
  id: 'policy.get',
  method: 'GET',
  path: '/v1/sandboxes/{id}/policy',
  dialect: 'native',
  summary: 'What a sandbox may reach',
  params: sandboxParams,
  answers: [{ status: 200, description: 'The policy', schema: sandboxPolicySchema }],
  errors: ['sandbox_not_found'],
  permission: 'read',
});

const policySet = defineOperation({
  id: 'policy.set',
  method: 'PUT',
  path: '/v1/sandboxes/{id}/policy',
  dialect: 'native',
  summary: 'Replace what a sandbox may reach, while it runs',
  description:
    'Holds for new connections at once; open connections that it does not allow are ended. `{}` is everything public.',
  params: sandboxParams,
  body: policyShape,
  answers: [{ status: 200, description: 'The policy as it holds now', schema: sandboxPolicySchema }],
  errors: ['sandbox_not_found'],
  permission: 'manage',
});

const policyTest = defineOperation({
  id: 'policy.test',
  method: 'POST',
  path: '/v1/sandboxes/{id}/policy/test',
  dialect: 'native',
  summary: 'Whether a destination would be reached, and which rule says so',
  description:
    'A name that the policy allows is looked up, and its addresses are judged; `not_resolved` says where that was not done. Nothing is connected to.',
  params: sandboxParams,
  body: policyTestBodySchema,
  answers: [{ status: 200, description: 'The answer of each step', schema: policyTestAnswerSchema }],
  errors: ['sandbox_not_found'],
  permission: 'exec',
});

const policyLearn = defineOperation({
  id: 'policy.learn',
  method: 'GET',
  path: '/v1/sandboxes/{id}/policy/learn',
  dialect: 'native',
  summary: 'The smallest policy for what a sandbox has asked for; nothing is changed',
  params: sandboxParams,
  answers: [{ status: 200, description: 'The proposal', schema: policyLearnAnswerSchema }],
  errors: ['sandbox_not_found', 'egress_unavailable'],
  permission: 'read',
});

const policyPresets = defineOperation({
  id: 'policy.presets',
  method: 'GET',
  path: '/v1/policy/presets',
  dialect: 'native',
  summary: 'The named lists of hosts that policies can use',
  answers: [{ status: 200, description: 'The presets', schema: z.array(presetInfoSchema) }],
  errors: [],
  permission: 'read',
});

const egressDecisions = defineOperation({
  id: 'egress.decisions',
  method: 'GET',
  path: '/v1/sandboxes/{id}/egress',
  dialect: 'native',
  summary: 'What a sandbox asked for and how it was answered, oldest first',
  description:
    'Without `after` the newest. With `follow=true` server-sent events `decision`, whose `id` is the row’s: ' +
    '`Last-Event-ID` or `after` resumes behind one.',
  params: sandboxParams,
  query: z.strictObject({
    ...egressQueryShape,
    after: queryInteger('after', { min: 0, max: Number.MAX_SAFE_INTEGER }).describe(
      'only rows with a larger `id`',
    ),
    limit: queryInteger('limit', { min: 1, max: decisionsMax }).describe('at most so many, default 100'),
  }),
  answers: [
    {
      status: 200,
      description: 'Decisions',
      schema: egressDecisionsSchema,
    },
  ],
  events: { decision: egressDecisionInfoSchema },
  errors: ['sandbox_not_found', 'egress_unavailable', 'stream_limit'],
  permission: 'read',
});

export const networkOperations = {
  'policy.get': policyGet,
  'policy.set': policySet,
  'policy.test': policyTest,
  'policy.learn': policyLearn,
  'policy.presets': policyPresets,
  'egress.decisions': egressDecisions,
} as const satisfies Operations;
