/** `squash schedule create`: makes a schedule, and says when it comes first. */
import { groupLimits } from '@squash/contract/group-limits';
import type { Schedule } from '@squash/contract/schedules';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { schedulesPath } from '../group-paths.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run({ client, positionals: [chat, name, text], flags, json }: Call): Promise<number> {
  const { least: min, most: max } = groupLimits.everyS;
  const made = await client.post<Schedule>(schedulesPath(), {
    chat,
    name,
    text,
    ...(flags.isSet('cron') && { cron: flags.text('cron') }),
    ...(flags.isSet('zone') && { time_zone: flags.text('zone') }),
    ...(flags.isSet('every') && { every_s: flags.integer('every', { min, max }) }),
    ...(flags.isSet('at') && { at: flags.text('at') }),
    ...(flags.isSet('isolated') && { context: 'isolated' }),
    ...(flags.isSet('skip-missed') && { missed: 'skip' }),
  });
  if (json) printJson(made);
  else printLine(`${made.name} comes first at ${made.next_at ?? ''}`);
  return exitCodes.ok;
}
