/** `squash wait`: until a process has ended, has written a line, or listens on a port. */
import { limits } from '@squash/contract/limits';
import type { WaitAnswer } from '@squash/contract/process';
import type { Query } from '../client/client.ts';
import { processPath, readProcess } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine, visible } from '../output/print.ts';
import { exitCodeOf } from '../terminal/follow-output.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', word] = call.positionals;
  const wish = wishOf(call);
  const answer = await answered(call, processPath(id, [readProcess(word), 'wait'], wish));
  if (call.json) printJson(answer);
  else if (answer.line !== null) printLine(visible(answer.line));
  return wish['for'] === 'exit' ? exitCodeOf(answer.process) : exitCodes.ok;
}

function wishOf({ flags }: Call): Query {
  const [text, pattern] = [flags.text('log'), flags.text('pattern')];
  const port = flags.integer('port', { min: 1, max: 65_535 });
  const given = [text, pattern, port].filter((each) => each !== undefined);
  if (given.length > 1) throw usageFailure('--log, --pattern and --port exclude each other');
  const what = port !== undefined ? 'port' : given.length === 0 ? 'exit' : 'log';
  const timeoutS = flags.number('timeout', { min: 0.001, max: limits.processWaitMsMax / 1_000 });
  const timeoutMs = timeoutS === undefined ? limits.processWaitMsMax : Math.round(timeoutS * 1_000);
  return { for: what, text, pattern, port, timeout_ms: timeoutMs };
}

/** Without a time of its own it waits as long as it takes. */
async function answered(call: Call, path: string): Promise<WaitAnswer> {
  for (;;) {
    try {
      return await call.client.get<WaitAnswer>(path);
    } catch (failure) {
      if (!(failure instanceof CliFailure) || failure.code !== 'wait_timeout') throw failure;
      if (call.flags.isSet('timeout')) {
        throw new CliFailure(failure.code, failure.message, exitCodes.timedOut);
      }
    }
  }
}
