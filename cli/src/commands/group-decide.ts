/** `squash group decide`: a person's word on what an agent waits for. */
import type { Action } from '@squash/contract/actions';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { actionsPath } from '../group-paths.ts';
import { printJson, printLine, visible } from '../output/print.ts';

export async function run({
  client,
  positionals: [number = '', decision],
  flags,
  json,
}: Call): Promise<number> {
  const reason = flags.text('reason');
  const body = { decision, ...(reason !== undefined && { reason }) };
  const action = await client.post<Action>(actionsPath([number]), body);
  if (json) printJson(action);
  else
    printLine(
      visible([action.state, action.rule, action.reason ?? ''].filter((word) => word !== '').join('  ')),
    );
  return exitCodes.ok;
}
