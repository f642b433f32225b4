/** `squash policy presets`: the named lists of hosts; with a name, that one's hosts. */
import type { presetInfoSchema } from '@squash/contract/egress';
import { apiPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export type Preset = ReturnType<(typeof presetInfoSchema)['parse']>;

export const presetsPath = apiPath(['v1', 'policy', 'presets']);

export async function run(call: Call): Promise<number> {
  const presets = await call.client.get<readonly Preset[]>(presetsPath);
  const [name] = call.positionals;
  const one = presets.find((preset) => preset.name === name?.replace(/^preset:/, ''));
  if (name !== undefined && one === undefined)
    throw new CliFailure('not_found', `there is no preset "${name}"`);
  if (call.json) printJson(one ?? presets);
  else if (one !== undefined) for (const host of one.hosts) printLine(host);
  else {
    printTable<Preset>(
      [
        { title: 'NAME', text: (each) => each.name },
        { title: 'HOSTS', text: (each) => `${each.hosts.length}`, align: 'right' },
        { title: 'DATE', text: (each) => each.date },
        { title: 'WHAT WORKS', text: (each) => each.summary },
      ],
      presets,
    );
  }
  return exitCodes.ok;
}
