/** A process's output on the streams it was written to, until it ends; its exit code is ours. */
import type { ProcessInfo } from '@squash/contract/process';
import type { Call } from '../command.ts';
import { bytesOf, followProcess } from '../client/processes.ts';
import { exitCodes } from '../failure.ts';
import { jsonText, printNote, standardError, standardOutput } from '../output/print.ts';
import { openOutputSink } from './output-sink.ts';

/** With `--json` one line for each event. */
export async function printOutput(
  call: Pick<Call, 'client' | 'json'>,
  place: { readonly id: string; readonly process: string | number; readonly after: number },
): Promise<number> {
  const sinks = { stdout: openOutputSink(standardOutput), stderr: openOutputSink(standardError) };
  const line = (value: unknown): Promise<void> => sinks.stdout.write(Buffer.from(`${jsonText(value)}\n`));
  const end = await followProcess(call.client, place, async (event) => {
    if (call.json) await line(event);
    else if (event.type === 'gap') printNote(`squash: ${event.bytes} bytes of output are not kept any more`);
    else await sinks[event.stream === 'stderr' ? 'stderr' : 'stdout'].write(bytesOf(event));
  });
  if (call.json) await line({ done: true, exit_code: end.exit_code });
  return exitCodeOf(end);
}

export function exitCodeOf({ exit_code }: ProcessInfo): number {
  return exit_code ?? exitCodes.failed;
}
