/** The operations on API keys. No answer but that of create holds a token. */
import { z } from 'zod';
import {
  keyBodySchema,
  keyCreatedSchema,
  keyInfoSchema,
  keyListSchema,
  keySelfSchema,
  ownerSchema,
} from '../keys.ts';
import { defineOperation, type Operations } from './operation.ts';
import { pageShape } from './query.ts';

/** Any text: an id that can't exist is one that does not. */
const keyParams = z.strictObject({ key: z.string() });

const keyCreate = defineOperation({
  id: 'key.create',
  method: 'POST',
  path: '/v1/keys',
  dialect: 'native',
  summary: 'Make a key; its token is in this answer and nowhere else',
  body: keyBodySchema,
  answers: [{ status: 201, description: 'The key, with its token', schema: keyCreatedSchema }],
  errors: ['key_limit', 'disk_full'],
  permission: 'admin',
});

const keyList = defineOperation({
  id: 'key.list',
  method: 'GET',
  path: '/v1/keys',
  dialect: 'native',
  summary: 'The keys, sorted by id, without their tokens',
  query: z.strictObject({ ...pageShape, owner: ownerSchema.optional().describe('only this owner’s') }),
  answers: [{ status: 200, description: 'Keys', schema: keyListSchema }],
  errors: [],
  permission: 'admin',
});

const keySelf = defineOperation({
  id: 'key.self',
  method: 'GET',
  path: '/v1/keys/self',
  dialect: 'native',
  summary: 'Who asks: the key, its owner, what that owner may have and has',
  answers: [{ status: 200, description: 'You', schema: keySelfSchema }],
  errors: [],
  permission: 'read',
});

const keyGet = defineOperation({
  id: 'key.get',
  method: 'GET',
  path: '/v1/keys/{key}',
  dialect: 'native',
  summary: 'Look at one key',
  params: keyParams,
  answers: [{ status: 200, description: 'The key', schema: keyInfoSchema }],
  errors: ['key_not_found'],
  permission: 'admin',
});

const keyRemove = defineOperation({
  id: 'key.remove',
  method: 'DELETE',
  path: '/v1/keys/{key}',
  dialect: 'native',
  summary: 'Remove a key: the next request with it is refused, what it has open ends within two seconds',
  description: 'Commands and sandboxes that were started with it stay.',
  params: keyParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['key_not_found', 'disk_full'],
  permission: 'admin',
});

export const keyOperations = {
  'key.create': keyCreate,
  'key.list': keyList,
  'key.self': keySelf,
  'key.get': keyGet,
  'key.remove': keyRemove,
} as const satisfies Operations;
