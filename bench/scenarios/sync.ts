/** Ten thousand small files: `squash sync` into a sandbox and out of it, beside `rsync` from one directory to another. */
import { existsSync } from 'node:fs';
import { mkdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { timeToExit } from '../measure/process.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

const directories = 100;
const filesEach = 100;
const fileBytes = 2_000;

export async function syncScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  const directory = join(context.workDir, 'sync');
  const source = join(directory, 'source');
  await mkdir(directory);
  for (let at = 0; at < directories * filesEach; at += 1) {
    const within = join(source, `${at % directories}`);
    if (at < directories) await mkdir(within, { recursive: true });
    await writeFile(join(within, `${at}`), `${at}\n`.repeat(fileBytes / 5));
  }
  // Nothing is removed in between: without a journal ext4 looks long for an inode where many files have just gone.
  let backs = 0;
  let touched = 0;
  const touchOne = async (): Promise<void> => await utimes(join(source, '0/0'), 0, (touched += 1));
  const measured = async (
    copy: (from: string, to: string) => Promise<number>,
    place: string,
  ): Promise<Sample> => {
    const up = await copy(source, place);
    const again = await copy(source, place);
    await touchOne();
    const one = await copy(source, place);
    const down = await copy(place, join(directory, `back-${(backs += 1)}`));
    return { up, again, one, down };
  };
  return {
    id: 'sync',
    title: `${directories * filesEach} small files`,
    about:
      'In 100 directories, 2 kB each, on the same disk as the sandbox. "all" is into an empty directory, "again" where nothing has changed, "one" where one file has, "out" is back into an empty one. `rsync -a` goes from directory to directory.',
    metrics: [
      { id: 'up', title: 'all', unit: 'ms' },
      { id: 'again', title: 'again', unit: 'ms' },
      { id: 'one', title: 'one', unit: 'ms' },
      { id: 'down', title: 'out', unit: 'ms' },
    ],
    warmups: 1,
    rounds: rounds(context, 5),
    subjects: [
      ...(await squashSubjects(context, async (squash) => {
        const id = await squash.createOnStack(stack);
        const sync = async (...words: string[]): Promise<number> =>
          await timeToExit(squash.cli('sync', ...words), squash.env);
        return [
          {
            name: 'Squash, sync',
            cycle: async () => await measured(sync, `${id}:/root/${(backs += 1)}`),
          },
        ];
      })),
      byRsync(() => join(directory, `there-${(backs += 1)}`), measured),
    ],
  };
}

function byRsync(
  placeOf: () => string,
  measured: (copy: (from: string, to: string) => Promise<number>, place: string) => Promise<Sample>,
): Subject {
  if (!existsSync('/usr/bin/rsync')) return { name: 'rsync -a', absent: 'rsync is not installed' };
  return {
    name: 'rsync -a',
    cycle: async () =>
      await measured(async (from, to) => await timeToExit(['rsync', '-a', `${from}/`, to]), placeOf()),
  };
}
