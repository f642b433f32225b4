/** `squash attach`: the output of a process that runs, from its beginning as far as it is kept, and its input. */
import { isatty } from 'node:tty';
import type { ProcessInfo } from '@squash/contract/process';
import { processPath, readProcess } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { usageFailure } from '../failure.ts';
import { attachStream } from '../terminal/attach-stream.ts';
import { printOutput } from '../terminal/follow-output.ts';

export async function run(call: Call): Promise<number> {
  const { flags } = call;
  const [id = '', word] = call.positionals;
  if (flags.isSet('interactive') && flags.isSet('no-stdin')) {
    throw usageFailure('--interactive and --no-stdin exclude each other');
  }
  const process = await call.client.get<ProcessInfo>(processPath(id, [readProcess(word)]));
  const after = flags.integer('after', { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0;
  const wantsInput = flags.isSet('interactive') || (isatty(0) ? process.pty : true);
  const isWatching = call.json || flags.isSet('no-stdin') || process.stdin !== 'open' || !wantsInput;
  if (isWatching) return await printOutput(call, { id, process: process.process, after });
  return await attachStream(call.client, { id, process, after });
}
