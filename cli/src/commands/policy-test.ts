/** `squash policy test`: whether a destination would be reached and which rule says so. Exits with 1 where it would not. */
import type { PolicyTestAnswer } from '@squash/contract/egress';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { styled } from '../output/table.ts';
import { readJsonFile } from '../json-file.ts';
import { policyPath } from './policy-show.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', to = ''] = call.positionals;
  const { flags } = call;
  const answer = await call.client.post<PolicyTestAnswer>(policyPath(id, ['test']), {
    to,
    ...(flags.isSet('method') && { method: flags.text('method') }),
    ...(flags.isSet('policy') && { policy: readJsonFile(flags.text('policy') ?? '-', 'policy') }),
  });
  if (call.json) printJson(answer);
  else {
    for (const { step, allowed, asked, rule, address, remedy } of answer.steps) {
      const refused = asked === true ? styled('yellow', 'asked  ') : styled('red', 'refused');
      const word = allowed ? styled('green', 'allowed') : refused;
      const place = address === undefined ? '' : `${visible(address)}  `;
      printLine(`${`${step}:`.padEnd(12)}${word}  ${place}${visible(rule)}`);
      if (remedy !== undefined) printLine(`${' '.repeat(12)}${visible(remedy)}`);
    }
    if (answer.not_resolved !== null) printLine(`No address was judged: ${visible(answer.not_resolved)}.`);
    if (answer.reads_requests)
      printLine('Requests to it are read, so only HTTP gets through: a rule about it has methods or paths.');
  }
  return answer.allowed ? exitCodes.ok : exitCodes.failed;
}
