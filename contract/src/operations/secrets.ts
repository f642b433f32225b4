/** The operations on secrets. No answer holds a value. */
import { z } from 'zod';
import { secretChangeSchema, secretInfoSchema, secretNameSchema } from '../secrets.ts';
import { defineOperation, type Operations } from './operation.ts';

const secretParams = z.strictObject({ secret: secretNameSchema });

const secretList = defineOperation({
  id: 'secret.list',
  method: 'GET',
  path: '/v1/secrets',
  dialect: 'native',
  summary: 'The secrets, sorted by name, without their values',
  answers: [{ status: 200, description: 'Secrets', schema: z.array(secretInfoSchema) }],
  errors: ['secrets_invalid'],
  permission: 'admin',
});

const secretSet = defineOperation({
  id: 'secret.set',
  method: 'PUT',
  path: '/v1/secrets/{secret}',
  dialect: 'native',
  summary: 'Make or change a secret; what is left out stays as it is',
  description: 'Holds from the next request on, in sandboxes that run as well. The value is never answered.',
  params: secretParams,
  body: secretChangeSchema,
  answers: [{ status: 200, description: 'The secret', schema: secretInfoSchema }],
  errors: ['secrets_invalid', 'disk_full'],
  permission: 'admin',
});

const secretRemove = defineOperation({
  id: 'secret.remove',
  method: 'DELETE',
  path: '/v1/secrets/{secret}',
  dialect: 'native',
  summary: 'Remove a secret; its placeholder is put into no request any more',
  params: secretParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['secret_not_found', 'secrets_invalid', 'disk_full'],
  permission: 'admin',
});

export const secretOperations = {
  'secret.list': secretList,
  'secret.set': secretSet,
  'secret.remove': secretRemove,
} as const satisfies Operations;
