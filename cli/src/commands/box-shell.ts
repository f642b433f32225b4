/** `squash box shell`: the user's own shell, in a box that is there or in a new one over this repository. */
import { findBox } from '../box/boxes.ts';
import { ownUser } from '../box/daemon.ts';
import type { Call } from '../command.ts';
import { usageFailure } from '../failure.ts';
import { execInBox } from './box-exec.ts';
import { runInNewBox } from './box-run.ts';

/** Where the box has the user's shell, else the system's. */
const script = 'if [ -x "$0" ]; then exec "$0" -l; else exec /bin/sh -l; fi';

/** What a box that is there takes; everything else is of a new one. */
const ofAnyBox = ['env', 'publish', 'tty'];

export async function run(call: Call): Promise<number> {
  const argv = ['/bin/sh', '-c', script, ownUser().shell];
  const [word] = call.positionals;
  if (word === undefined) return await runInNewBox(call, argv);
  const { boxCommands } = await import('../command-table-box.ts');
  const flags = boxCommands.find(({ name }) => name === 'box shell')?.flags ?? [];
  const given = flags.find(({ name }) => !ofAnyBox.includes(name) && call.flags.isSet(name));
  if (given !== undefined)
    throw usageFailure(`--${given.name} is of a new box, and "${word}" is there already`);
  const { daemon, box } = await findBox(call, word);
  return await execInBox(call, daemon, { box, argv });
}
