/** `squash job kill`: ends background commands and waits until they are gone. */
import { limits } from '@squash/contract/limits';
import type { ProcessInfo } from '@squash/contract/process';
import { type Client, sandboxPath } from '../client/client.ts';
import { processPath } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', ...words] = call.positionals;
  const jobs = words.map(readNumber);
  for (const job of jobs) {
    await end(call.client, id, job);
    if (!call.json) printLine(`${job}`);
  }
  if (call.json) printJson({ killed: jobs });
  return exitCodes.ok;
}

async function end(client: Client, id: string, job: number): Promise<void> {
  const process = await client.get<ProcessInfo>(processPath(id, [job]));
  if (process.kind === 'process') await endProcess(client, id, job);
  else await client.delete(sandboxPath(id, ['jobs', job]));
}

/** TERM, two seconds, KILL; one that has ended stays as it is. */
async function endProcess(client: Client, id: string, process: number): Promise<void> {
  for (const [signal, waitMs] of [
    ['TERM', limits.execKillGraceMs],
    ['KILL', limits.processWaitMsDefault],
  ] as const) {
    try {
      await client.post(processPath(id, [process, 'signal']), { signal });
      await client.get(processPath(id, [process, 'wait'], { timeout_ms: waitMs }));
      return;
    } catch (failure) {
      if (!(failure instanceof CliFailure)) throw failure;
      if (failure.code === 'process_ended') return;
      if (failure.code !== 'wait_timeout' || signal === 'KILL') throw failure;
    }
  }
}

function readNumber(word: string): number {
  if (!/^[1-9]\d{0,14}$/.test(word)) throw usageFailure(`"${word}" is no command's number`);
  return Number(word);
}
