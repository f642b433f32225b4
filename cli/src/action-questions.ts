/**
 * What agents of groups wait to do, as questions to a person. An agent chose every word of its request, up to several screens: so each
 * line of it begins with a mark, none is as long as the terminal is wide, and who asks for what stands behind it, next to the keys.
 */
import type { Action } from '@squash/contract/actions';
import { groupLimits } from '@squash/contract/group-limits';
import type { Question } from './approving.ts';
import type { Client } from './client/client.ts';
import { CliFailure } from './failure.ts';
import { actionsPath, type All } from './group-paths.ts';
import { visible } from './output/print.ts';

const keys = '[y] allow  [n] deny  [Enter] later: ';
const mark = '  | ';
const columnsLeast = 40;

/** None for a key that may not decide on them, or a daemon that has no groups. */
export async function actionQuestions(client: Client): Promise<readonly Question[]> {
  return (await actionsOf(client, { state: 'held', limit: groupLimits.pageItemsMax })).map((action) => ({
    id: `action-${action.number}`,
    askedAt: action.asked_at,
    text: shownAction(action, process.stdout.columns ?? 80),
    keys,
    answers: {
      y: async (say) => say(await decide(client, action, 'allow')),
      n: async (say) => say(await decide(client, action, 'deny')),
    },
    over: () => becameOf(client, action),
  }));
}

async function actionsOf(
  client: Client,
  query: Parameters<typeof actionsPath>[1],
): Promise<readonly Action[]> {
  try {
    return (await client.get<All<Action>>(actionsPath([], query))).items;
  } catch (failure) {
    if (failure instanceof CliFailure && ['forbidden', 'not_found'].includes(failure.code)) return [];
    throw failure;
  }
}

async function decide(client: Client, { number }: Action, decision: string): Promise<string> {
  const { state, rule, reason } = await client.post<Action>(actionsPath([`${number}`]), { decision });
  return visible([state, rule, reason ?? ''].filter((word) => word !== '').join('  '));
}

async function becameOf(client: Client, { number, group }: Action): Promise<string | undefined> {
  const held = await actionsOf(client, { state: 'held', group, limit: groupLimits.pageItemsMax });
  if (held.some((each) => each.number === number)) return undefined;
  const all = await actionsOf(client, { group, limit: groupLimits.pageItemsMax });
  return all.find((each) => each.number === number)?.state ?? 'withdrawn';
}

/** @param columns of the terminal; a letter takes two at most */
export function shownAction({ number, action, group, run, rule, request }: Action, columns: number): string {
  const most = Math.floor((Math.max(columns, columnsLeast) - mark.length) / 2);
  const lines = Object.entries(request)
    .filter(([name]) => name !== 'action')
    .flatMap(([name, value]) => {
      const text = visible(`${name}: ${JSON.stringify(value)}`);
      return text.match(new RegExp(`.{1,${most}}`, 'gsu'))?.map((piece) => `${mark}${piece}`) ?? [];
    });
  return [
    ...lines,
    `Group ${visible(group)} waits for ${visible(action)}, all of which is above; action ${number}, run ${run}`,
    `  asked by ${visible(rule)}`,
  ].join('\n');
}
