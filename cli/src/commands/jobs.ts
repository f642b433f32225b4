/** `squash jobs`: background commands and how they ended. */
import type { ProcessInfo } from '@squash/contract/process';
import { listProcesses } from '../client/processes.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatAge, printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const all = await listProcesses(call.client, call.positionals[0] ?? '');
  const jobs = all.filter(({ kind }) => kind === 'process' || kind === 'job');
  if (call.json) {
    printJson(jobs);
    return exitCodes.ok;
  }
  printTable<ProcessInfo>(
    [
      { title: 'JOB', text: (job) => `${job.process}`, align: 'right' },
      {
        title: 'STATUS',
        text: statusOf,
        style: (job) => (job.state === 'running' ? 'green' : undefined),
      },
      { title: 'EXIT', text: (job) => (job.exit_code === null ? '-' : `${job.exit_code}`), align: 'right' },
      { title: 'REASON', text: (job) => job.reason ?? '-' },
      { title: 'AGE', text: (job) => formatAge(job.started_at), align: 'right' },
      { title: 'TAG', text: (job) => job.tag ?? '-' },
      { title: 'COMMAND', text: (job) => job.command, fits: true },
    ],
    jobs,
  );
  return exitCodes.ok;
}

/** One that a signal or the sandbox ended did not come to its own end. */
function statusOf({ state, reason }: ProcessInfo): string {
  if (state === 'running') return state;
  return reason === 'exited' ? 'done' : 'killed';
}
