/** `squash signal`: a signal to a process and its group. */
import { processPath, readProcess } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const [id = '', word, name = 'TERM'] = call.positionals;
  const process = readProcess(word);
  const signal = /^\d+$/.test(name) ? Number(name) : name;
  await call.client.post(processPath(id, [process, 'signal']), { signal });
  if (call.json) printJson({ process, signal });
  else printLine(word ?? '');
  return exitCodes.ok;
}
