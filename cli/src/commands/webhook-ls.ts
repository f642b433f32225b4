/** `squash webhook ls`: where events are sent, and how that goes. */
import type { Webhook } from '@squash/contract/webhooks';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export interface WebhookList {
  readonly items: readonly Webhook[];
}

export async function run(call: Call): Promise<number> {
  const list = await call.client.get<WebhookList>(webhooksPath());
  if (call.json) {
    printJson(list);
    return exitCodes.ok;
  }
  printTable<Webhook>(
    [
      { title: 'ID', text: (each) => each.id },
      {
        title: 'STATE',
        text: stateOf,
        style: (each) => (each.enabled && each.last_error === null ? 'green' : 'yellow'),
      },
      { title: 'PENDING', text: (each) => `${each.pending}`, align: 'right' },
      { title: 'GIVEN UP', text: (each) => `${each.given_up}`, align: 'right' },
      { title: 'OWNER', text: (each) => each.owner ?? '*' },
      { title: 'TYPES', text: (each) => (each.types.length === 0 ? '*' : each.types.join(',')) },
      { title: 'URL', text: (each) => each.url },
      { title: 'LAST ERROR', text: (each) => each.last_error ?? '' },
    ],
    list.items,
  );
  return exitCodes.ok;
}

function stateOf({ enabled, last_error: error }: Webhook): string {
  if (!enabled) return 'disabled';
  return error === null ? 'ok' : 'failing';
}

export function webhooksPath(...more: readonly string[]): string {
  return apiPath(['v1', 'webhooks', ...more]);
}
