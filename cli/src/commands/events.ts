/**
 * `squash events`: what happened to sandboxes. `--follow` prints each event as it happens, and resumes behind the last one when
 * the connection breaks.
 */
import type { Event } from '@squash/contract/events';
import { apiPath, type Query } from '../client/client.ts';
import { followEvents } from '../client/follow.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { jsonText, printJson, printLine, printNote, visible } from '../output/print.ts';
import { printTable } from '../output/table.ts';

interface Page {
  readonly items: readonly Event[];
}

export async function run(call: Call): Promise<number> {
  const { flags } = call;
  const types = flags.list('type');
  const query: Query = {
    sandbox: flags.text('sandbox'),
    type: types.length === 0 ? undefined : types.join(','),
    owner: flags.text('owner'),
    after: flags.integer('after', { min: 0, max: Number.MAX_SAFE_INTEGER }),
    limit: flags.integer('limit', { min: 1, max: 1_000 }),
  };
  if (flags.isSet('follow')) return await follow(call, query);
  const page = await call.client.get<Page>(eventsPath(query));
  if (call.json) printJson(page);
  else {
    printTable<Event>(
      [
        { title: 'ID', text: (each) => `${each.id}`, align: 'right' },
        { title: 'TIME', text: (each) => each.at },
        { title: 'TYPE', text: (each) => each.type },
        { title: 'SANDBOX', text: (each) => each.sandbox },
        { title: 'OWNER', text: (each) => each.owner },
        { title: 'DATA', text: dataText },
      ],
      page.items,
    );
  }
  return exitCodes.ok;
}

function eventsPath(query: Query): string {
  return apiPath(['v1', 'events'], query);
}

async function follow(call: Call, { limit: _limit, ...query }: Query): Promise<never> {
  // From what there is now on, also where the connection breaks before anything has happened.
  const newest = await call.client.get<Page>(eventsPath({ limit: 1 }));
  let after = query['after'] ?? newest.items[0]?.id ?? 0;
  return await followEvents<never>(call.client, {
    what: 'events',
    request: () => ({ path: eventsPath({ ...query, after, follow: 'true' }) }),
    onEvent: ({ name, id, data }) => {
      if (call.json) printLine(jsonText(JSON.parse(data)));
      else if (name === 'gap') printNote(`squash: older events are not kept any more: ${visible(data)}`);
      else printLine(lineOf(JSON.parse(data) as Event));
      after = id ?? after;
      return undefined;
    },
  });
}

function lineOf(event: Event): string {
  const { at, type, sandbox, owner } = event;
  return `${at} ${type.padEnd(18)} ${visible(`${sandbox} (${owner})`)}  ${visible(dataText(event))}`;
}

export function dataText({ data }: Event): string {
  return Object.entries(data)
    .map(([key, value]) => `${key}=${value}`)
    .join(' ');
}
