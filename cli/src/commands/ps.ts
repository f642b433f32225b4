/** `squash ps`: the commands that run in a sandbox, however they were started; with `--all` the ended ones, too. */
import type { ProcessInfo } from '@squash/contract/process';
import { listProcesses } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatAge, printJson, printLine } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const [id = ''] = call.positionals;
  const state = call.flags.isSet('all') ? undefined : 'running';
  const processes = await listProcesses(call.client, id, { state, tag: call.flags.text('tag') });
  if (call.json) printJson(processes);
  else if (call.flags.isSet('quiet')) for (const { process } of processes) printLine(`${process}`);
  else printProcesses(processes);
  return exitCodes.ok;
}

function printProcesses(processes: readonly ProcessInfo[]): void {
  printTable<ProcessInfo>(
    [
      { title: 'PROCESS', text: (each) => `${each.process}`, align: 'right' },
      { title: 'TAG', text: (each) => each.tag ?? '-' },
      { title: 'KIND', text: (each) => each.kind },
      {
        title: 'STATE',
        text: (each) => each.state,
        style: (each) => (each.state === 'running' ? 'green' : undefined),
      },
      {
        title: 'EXIT',
        text: (each) => (each.exit_code === null ? '-' : `${each.exit_code}`),
        align: 'right',
      },
      { title: 'AGE', text: (each) => formatAge(each.started_at), align: 'right' },
      { title: 'COMMAND', text: (each) => each.command, fits: true },
    ],
    processes,
  );
}
