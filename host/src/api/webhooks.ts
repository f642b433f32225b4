/** `webhook.*`: events sent to an address. A key that has an owner makes and sees that owner's alone. */
import { AppError } from '@squash/contract/errors';
import type { webhookOperations } from '@squash/contract/operations/webhooks';
import type { Webhook, WebhookId } from '@squash/contract/webhooks';
import { type Caller, sees } from '../http/caller.ts';
import { empty, json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';

export type WebhookParts = Pick<Webhooks, 'create' | 'list' | 'get' | 'update' | 'remove' | 'test'>;

export function webhookHandlers(webhooks: WebhookParts): HandlersOf<typeof webhookOperations> {
  /** @throws webhook_not_found, also where it is another owner's */
  const check = (caller: Caller, id: WebhookId): void => {
    if (!isSeen(caller, webhooks.get(id))) {
      throw new AppError('webhook_not_found', `Cannot find webhook "${id}"`);
    }
  };
  return {
    'webhook.create': ({ body, caller }) => {
      const owner = body.owner ?? caller.owner;
      if (!isSeen(caller, { owner })) {
        throw new AppError(
          'forbidden',
          `the key is of owner "${caller.owner}", and hears no other owner's events`,
        );
      }
      return json(webhooks.create({ url: body.url, types: body.types, owner, secret: body.secret }));
    },
    'webhook.list': ({ caller }) =>
      json({ items: webhooks.list().filter((each) => isSeen(caller, each)), next: null }),
    'webhook.get': ({ params, caller }) => {
      check(caller, params.webhook);
      return json(webhooks.get(params.webhook));
    },
    'webhook.update': async ({ params, body, caller }) => {
      check(caller, params.webhook);
      const { url, types, enabled } = body;
      return json(
        await webhooks.update(params.webhook, {
          ...(url === undefined ? {} : { url }),
          ...(types === undefined ? {} : { types }),
          ...(enabled === undefined ? {} : { isEnabled: enabled }),
        }),
      );
    },
    'webhook.remove': async ({ params, caller }) => {
      check(caller, params.webhook);
      await webhooks.remove(params.webhook);
      return empty;
    },
    'webhook.test': async ({ params, caller }) => {
      check(caller, params.webhook);
      return json(await webhooks.test(params.webhook));
    },
  };
}

/** One for everybody's events is the operator's. */
function isSeen(caller: Caller, { owner }: Pick<Webhook, 'owner'>): boolean {
  return caller.owner === null || (owner !== null && sees(caller, owner));
}
