/** The operations on webhooks. No answer but that of the create holds a secret. */
import { z } from 'zod';
import {
  webhookChangeSchema,
  webhookCreateSchema,
  webhookIdSchema,
  webhookMadeSchema,
  webhookSchema,
  webhookTestSchema,
} from '../webhooks.ts';
import { defineOperation, type Operations } from './operation.ts';

const webhookParams = z.strictObject({ webhook: webhookIdSchema });

const webhookCreate = defineOperation({
  id: 'webhook.create',
  method: 'POST',
  path: '/v1/webhooks',
  dialect: 'native',
  summary: 'Have events sent to an address, from now on',
  description:
    'Signed as Standard Webhooks has it. Each event is sent until it is taken (any status 2xx), in the order of ids, for a day at most.',
  body: webhookCreateSchema,
  answers: [{ status: 201, description: 'The webhook, with its secret', schema: webhookMadeSchema }],
  errors: ['webhook_limit', 'webhook_address_refused', 'disk_full'],
  permission: 'admin',
});

const webhookList = defineOperation({
  id: 'webhook.list',
  method: 'GET',
  path: '/v1/webhooks',
  dialect: 'native',
  summary: 'The webhooks, oldest first, and how their deliveries go',
  answers: [
    {
      status: 200,
      description: 'Webhooks',
      schema: z.strictObject({ items: z.array(webhookSchema), next: z.null() }),
    },
  ],
  errors: [],
  permission: 'admin',
});

const webhookGet = defineOperation({
  id: 'webhook.get',
  method: 'GET',
  path: '/v1/webhooks/{webhook}',
  dialect: 'native',
  summary: 'A webhook, and how its deliveries go',
  params: webhookParams,
  answers: [{ status: 200, description: 'The webhook', schema: webhookSchema }],
  errors: ['webhook_not_found'],
  permission: 'admin',
});

const webhookUpdate = defineOperation({
  id: 'webhook.update',
  method: 'PATCH',
  path: '/v1/webhooks/{webhook}',
  dialect: 'native',
  summary: 'Change where a webhook sends, what, or whether it does; what is left out stays as it is',
  params: webhookParams,
  body: webhookChangeSchema,
  answers: [{ status: 200, description: 'The webhook', schema: webhookSchema }],
  errors: ['webhook_not_found', 'webhook_address_refused', 'disk_full'],
  permission: 'admin',
});

const webhookRemove = defineOperation({
  id: 'webhook.remove',
  method: 'DELETE',
  path: '/v1/webhooks/{webhook}',
  dialect: 'native',
  summary: 'Remove a webhook; what was not delivered yet never is',
  params: webhookParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['webhook_not_found', 'disk_full'],
  permission: 'admin',
});

const webhookTest = defineOperation({
  id: 'webhook.test',
  method: 'POST',
  path: '/v1/webhooks/{webhook}/test',
  dialect: 'native',
  summary: 'Send a signed event `webhook.test` once, now, and say what came of it',
  params: webhookParams,
  answers: [{ status: 200, description: 'What came of it', schema: webhookTestSchema }],
  errors: ['webhook_not_found'],
  permission: 'admin',
});

export const webhookOperations = {
  'webhook.create': webhookCreate,
  'webhook.list': webhookList,
  'webhook.get': webhookGet,
  'webhook.update': webhookUpdate,
  'webhook.remove': webhookRemove,
  'webhook.test': webhookTest,
} as const satisfies Operations;
