/** `squash job kill`: ends background commands and waits until they are gone. */
import { sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', ...words] = call.positionals;
  const jobs = words.map(readNumber);
  for (const job of jobs) {
    await call.client.delete(sandboxPath(id, ['jobs', job]));
    if (!call.json) printLine(`${job}`);
  }
  if (call.json) printJson({ killed: jobs });
  return exitCodes.ok;
}

/** Shared with `logs`: the number of a command or job. */
export function readNumber(word: string): number {
  if (!/^[1-9]\d{0,14}$/.test(word)) throw usageFailure(`"${word}" is no command's number`);
  return Number(word);
}
