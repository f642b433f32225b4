/** `squash jobs`: background commands and how they ended. */
import type { JobInfo } from '@squash/contract/exec';
import { sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { exitCodes } from '../failure.ts';
import { formatAge, printJson } from '../output/print.ts';
import { printTable } from '../output/table.ts';

export async function run(call: Call): Promise<number> {
  const jobs = await call.client.get<readonly JobInfo[]>(sandboxPath(call.positionals[0] ?? '', ['jobs']));
  if (call.json) {
    printJson(jobs);
    return exitCodes.ok;
  }
  printTable<JobInfo>(
    [
      { title: 'JOB', text: (job) => `${job.job_id}`, align: 'right' },
      {
        title: 'STATUS',
        text: (job) => job.status,
        style: (job) => (job.status === 'running' ? 'green' : undefined),
      },
      { title: 'EXIT', text: (job) => (job.exit_code === null ? '-' : `${job.exit_code}`), align: 'right' },
      { title: 'REASON', text: (job) => job.reason ?? '-' },
      { title: 'STARTED', text: (job) => job.started },
      { title: 'AGE', text: (job) => formatAge(job.started), align: 'right' },
      { title: 'COMMAND', text: (job) => job.cmd, fits: true },
    ],
    jobs,
  );
  return exitCodes.ok;
}
