/** Processes of a sandbox as the commands name and follow them. */
import type { ProcessEvent, ProcessInfo } from '@squash/contract/process';
import { CliFailure, usageFailure } from '../failure.ts';
import { apiPath, type Client, type Query } from './client.ts';
import { followEvents } from './follow.ts';

const pageItems = 1_000;

/** A number, or a tag, with `tag:` in front where it could be taken for a number. */
export function readProcess(word: string | undefined): string {
  if (word === undefined || word === '') throw usageFailure('the process is missing; see: squash ps');
  return /^[1-9]\d{0,14}$/.test(word) || word.startsWith('tag:') ? word : `tag:${word}`;
}

export function processPath(id: string, more: readonly (string | number)[] = [], query: Query = {}): string {
  return apiPath(['v1', 'sandboxes', id, 'processes', ...more], query);
}

interface Page {
  readonly items: readonly ProcessInfo[];
  readonly next: string | null;
}

/** Of all pages. */
export async function listProcesses(
  client: Client,
  id: string,
  filter: Query = {},
): Promise<readonly ProcessInfo[]> {
  const all: ProcessInfo[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.get<Page>(processPath(id, [], { ...filter, limit: pageItems, cursor }));
    all.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
  return all;
}

/** What a follower acts on. */
export type Followed = Extract<ProcessEvent, { type: 'output' | 'gap' }>;

/**
 * Gives the output behind a position and resolves when the process has ended. A stream that breaks is resumed at the next byte; a
 * refusal is final.
 */
export async function followProcess(
  client: Client,
  place: { readonly id: string; readonly process: string | number; readonly after: number },
  take: (event: Followed) => Promise<void>,
): Promise<ProcessInfo> {
  let { after } = place;
  return await followEvents<ProcessInfo>(client, {
    what: 'output',
    request: () => ({ path: processPath(place.id, [place.process, 'output'], { after }) }),
    onEvent: async ({ data }) => {
      const event = JSON.parse(data) as ProcessEvent;
      if (event.type === 'exit') return event.process;
      if (event.type === 'error') throw new CliFailure(event.code, event.message);
      if (event.type !== 'output' && event.type !== 'gap') return undefined;
      await take(event);
      after = event.seq;
      return undefined;
    },
  });
}

export function bytesOf(event: Extract<Followed, { type: 'output' }>): Buffer {
  return event.text === undefined
    ? Buffer.from(event.base64 ?? '', 'base64')
    : Buffer.from(event.text, 'utf8');
}
