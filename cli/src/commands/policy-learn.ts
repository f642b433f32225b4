/**
 * `squash policy learn`: the smallest policy for what a sandbox has asked for, as JSON on standard output, so that it can
 * be read, kept in a file and given to `policy set --file`. What was left out goes to standard error.
 */
import type { PolicyLearnAnswer } from '@squash/contract/egress';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printNote, visible } from '../output/print.ts';
import { policyPath } from './policy-show.ts';

export async function run(call: Call): Promise<number> {
  const answer = await call.client.get<PolicyLearnAnswer>(policyPath(call.positionals[0] ?? '', ['learn']));
  if (call.json) {
    printJson(answer);
    return exitCodes.ok;
  }
  printJson(answer.policy);
  for (const { what, why } of answer.left_out)
    printNote(`squash: left out: ${visible(what)}: ${visible(why)}`);
  return exitCodes.ok;
}
