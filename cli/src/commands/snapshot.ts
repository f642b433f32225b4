/** `squash snapshot`: keeps the writable layer; prints the label. */
import { sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatBytes, printJson, printLine, printNote } from '../output/print.ts';

interface Taken {
  readonly snapshot: string;
  readonly size: number;
}

export async function run(call: Call): Promise<number> {
  const [id = '', label] = call.positionals;
  const body = label === undefined ? {} : { label };
  const taken = await call.client.post<Taken>(sandboxPath(id, ['snapshot']), body);
  if (call.json) {
    printJson(taken);
  } else {
    printLine(taken.snapshot);
    if (process.stderr.isTTY) printNote(formatBytes(taken.size));
  }
  return exitCodes.ok;
}
