/**
 * `squash egress`: what a sandbox asked for and how it was answered. `--follow` prints each decision as it comes, and
 * resumes behind the last one when the connection breaks.
 */
import type { EgressDecisionInfo } from '@squash/contract/egress';
import { apiPath, type Query } from '../client/client.ts';
import { followEvents } from '../client/follow.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { destinationText } from '../output/destination.ts';
import { formatBytes, jsonText, printJson, printLine, visible } from '../output/print.ts';
import { printTable, type Style, styled } from '../output/table.ts';

interface Decisions {
  readonly decisions: readonly EgressDecisionInfo[];
}

const styles = { allowed: undefined, denied: 'red', blocked: 'red' } as const;

export async function run(call: Call): Promise<number> {
  const [id = ''] = call.positionals;
  const query = queryOf(call);
  if (call.flags.isSet('follow')) return await follow(call, id, query);
  const answer = await call.client.get<Decisions>(decisionsPath(id, query));
  if (call.json) printJson(answer);
  else printDecisions(answer.decisions);
  return exitCodes.ok;
}

function decisionsPath(id: string, query: Query): string {
  return apiPath(['v1', 'sandboxes', id, 'egress'], query);
}

function queryOf({ flags }: Call): Query {
  if (flags.isSet('denied') && flags.isSet('verdict')) throw usageFailure('--denied is --verdict refused');
  return {
    verdict: flags.isSet('denied') ? 'refused' : flags.text('verdict'),
    kind: flags.text('kind'),
    host: flags.text('host'),
    after: flags.integer('after', { min: 0, max: Number.MAX_SAFE_INTEGER }),
    limit: flags.integer('limit', { min: 1, max: 1_000 }),
  };
}

function printDecisions(decisions: readonly EgressDecisionInfo[]): void {
  printTable<EgressDecisionInfo>(
    [
      { title: 'ID', text: (each) => `${each.id}`, align: 'right' },
      { title: 'TIME', text: (each) => each.time },
      { title: 'KIND', text: (each) => each.kind },
      { title: 'VERDICT', text: verdictText, style: (each): Style | undefined => styles[each.verdict] },
      { title: 'DESTINATION', text: destinationText },
      { title: 'UP', text: ({ bytes_up: up }) => (up === null ? '' : formatBytes(up)), align: 'right' },
      {
        title: 'DOWN',
        text: ({ bytes_down: down }) => (down === null ? '' : formatBytes(down)),
        align: 'right',
      },
      { title: 'RULE', text: (each) => each.rule },
    ],
    decisions,
  );
}

function verdictText({ verdict, count }: EgressDecisionInfo): string {
  return count > 1 ? `${verdict} ×${count}` : verdict;
}

async function follow(call: Call, id: string, query: Query): Promise<never> {
  let { after } = query;
  return await followEvents<never>(call.client, {
    what: 'decisions',
    request: () => ({ path: decisionsPath(id, { ...query, after, follow: 'true' }) }),
    onEvent: ({ data }) => {
      const decision = JSON.parse(data) as EgressDecisionInfo;
      printLine(call.json ? jsonText(decision) : lineOf(decision));
      after = decision.id;
      return undefined;
    },
  });
}

function lineOf(decision: EgressDecisionInfo): string {
  const style: Style | undefined = styles[decision.verdict];
  const verdict = verdictText(decision).padEnd(8);
  const shown = style === undefined ? verdict : styled(style, verdict);
  return `${decision.time} ${decision.kind.padEnd(10)} ${shown} ${visible(destinationText(decision))}  ${visible(decision.rule)}`;
}
