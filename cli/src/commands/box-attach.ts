/** `squash box attach`: the latest command of a box that runs, from its beginning as far as it is kept, and its input. */
import { isatty } from 'node:tty';
import { findBox } from '../box/boxes.ts';
import { publish } from '../box/published.ts';
import { listProcesses } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { CliFailure } from '../failure.ts';
import { attachStream } from '../terminal/attach-stream.ts';
import { printOutput } from '../terminal/follow-output.ts';

export async function run(call: Call): Promise<number> {
  const { daemon, box } = await findBox(call, call.positionals[0] ?? '');
  const { client } = daemon;
  const process = (await listProcesses(client, box.id, { state: 'running' })).at(-1);
  if (process === undefined)
    throw new CliFailure('process_not_found', `nothing runs in the box ${box.id}; try: squash box ps`);
  using _published = await publish(call, { client, id: box.id });
  const place = { id: box.id, process: process.process, after: 0 };
  const wantsInput = process.stdin === 'open' && (process.pty || !isatty(0));
  if (call.json || call.flags.isSet('no-stdin') || !wantsInput)
    return await printOutput({ ...call, client }, place);
  return await attachStream(client, { id: box.id, process, after: 0 });
}
