/** The operations on owners: who has what, and how much each may have. */
import { z } from 'zod';
import { ownerInfoSchema, ownerListSchema, ownerSchema, quotaBodySchema } from '../keys.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape } from './query.ts';

const ownerParams = z.strictObject({ owner: ownerSchema });

const ownerList = defineOperation({
  id: 'owner.list',
  method: 'GET',
  path: '/v1/owners',
  dialect: 'native',
  summary: 'Everybody who has a sandbox, a key or a quota, sorted by name',
  query: z.strictObject(pageShape),
  answers: [{ status: 200, description: 'Owners', schema: ownerListSchema }],
  errors: [],
  permission: 'admin',
});

const ownerQuota = defineOperation({
  id: 'owner.quota',
  method: 'GET',
  path: '/v1/owners/{owner}/quota',
  dialect: 'native',
  summary: 'What an owner may have, and has',
  description: 'Any name is answered: an owner is whoever is named by a sandbox or a key.',
  params: ownerParams,
  answers: [{ status: 200, description: 'The owner', schema: ownerInfoSchema }],
  errors: [],
  permission: 'admin',
});

const ownerSetQuota = defineOperation({
  id: 'owner.set_quota',
  method: 'PUT',
  path: '/v1/owners/{owner}/quota',
  dialect: 'native',
  summary: 'Replace what an owner may have; what is left out is not bounded',
  description:
    'Holds from the next create, snapshot or command on, whoever asks for it. What is there stays, also above the quota.',
  params: ownerParams,
  body: quotaBodySchema,
  answers: [{ status: 200, description: 'The owner', schema: ownerInfoSchema }],
  errors: ['disk_full'],
  permission: 'admin',
});

export const ownerOperations = {
  'owner.list': ownerList,
  'owner.quota': ownerQuota,
  'owner.set_quota': ownerSetQuota,
} as const satisfies Operations;
