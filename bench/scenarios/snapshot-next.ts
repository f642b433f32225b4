/**
 * A further snapshot of an upper in which one file has changed, beside mksquashfs, which packs all of it again, and restic,
 * which reads what has changed and keeps pieces of files. What a snapshot adds on the disk counts as well.
 */
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { mustRun, run, timed } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { makeTree } from '../squash/file-tree.ts';
import { packFlags } from '../squash/image-tools.ts';
import type { SquashUnderTest } from '../squash/daemon.ts';
import { type Context, squashSubjects } from './context.ts';

const changedBytes = 65_536;

export async function snapshotNextScenario(context: Context): Promise<Scenario> {
  const megabytes = context.quick ? 50 : 500;
  const directory = join(context.workDir, 'next');
  await makeTree(directory, megabytes);
  return {
    id: 'snapshot-next',
    title: `One more snapshot, ${megabytes} MB`,
    about: `An upper of ${megabytes} MB in files of 64 KiB, half of them random and half text, of which one is written anew between two snapshots. mksquashfs packs the whole tree with the settings of Squash; restic 0.14 backs it up into a repository on the same disk, and finds what has changed by its times, as Squash does.`,
    metrics: [
      { id: 'time', title: 'one more snapshot', unit: 'ms' },
      { id: 'size', title: 'what it adds on the disk', unit: 'MB' },
    ],
    warmups: 1,
    rounds: context.quick ? 2 : 9,
    subjects: [
      ...(await squashSubjects(context, async (squash) => [await squashSubject(squash, directory)])),
      wholeSubject(directory),
      ...((await run(['restic', 'version']).catch(() => undefined))?.code === 0
        ? [await resticSubject(directory)]
        : []),
    ],
  };
}

async function squashSubject(squash: SquashUnderTest, directory: string): Promise<Subject> {
  const tarball = `${directory}.tar`;
  await mustRun(['tar', '-C', directory, '-cf', tarball, '.']);
  const id = squash.nextId();
  await squash.client.create(id, squash.layers);
  const bytes = await readFile(tarball);
  await rm(tarball);
  await squash.client.stream(id, ['tar', '-xf', '-', '-C', '/root'], bytes);
  await squash.client.snapshot(id, 'first');
  return {
    name: 'Squash',
    cycle: async (round) => {
      const change = `head -c ${changedBytes} /dev/urandom >/root/d0/f0; sync; sleep 0.1`;
      await squash.client.exec(id, change);
      const label = `next-${round}-${Date.now()}`;
      const time = await timed(() => squash.client.snapshot(id, label));
      return { time, size: (await squash.client.snapshotBytes(id, label)) / 1e6 };
    },
  };
}

async function change(directory: string): Promise<void> {
  await writeFile(join(directory, 'd0/f0'), randomBytes(changedBytes));
  await mustRun(['sync', '-f', directory]);
}

function wholeSubject(directory: string): Subject {
  const image = `${directory}.squashfs`;
  return {
    name: 'mksquashfs, whole',
    cycle: async () => {
      await change(directory);
      const time = await timed(() => mustRun(['mksquashfs', directory, image, ...packFlags]));
      const { size } = await stat(image);
      await rm(image);
      return { time, size: size / 1e6 };
    },
  };
}

async function resticSubject(directory: string): Promise<Subject> {
  const repository = `${directory}.restic`;
  const env = {
    ...process.env,
    RESTIC_REPOSITORY: repository,
    RESTIC_PASSWORD: 'bench',
    RESTIC_CACHE_DIR: `${directory}.cache`,
  };
  const bytes = async (): Promise<number> =>
    Number((await mustRun(['du', '-sb', repository])).split('\t')[0]);
  await mkdir(repository);
  await mustRun(['restic', 'init', '--quiet'], { env });
  await mustRun(['restic', 'backup', '--quiet', directory], { env });
  return {
    name: 'restic 0.14',
    cycle: async () => {
      await change(directory);
      const before = await bytes();
      const time = await timed(() => mustRun(['restic', 'backup', '--quiet', directory], { env }));
      return { time, size: ((await bytes()) - before) / 1e6 };
    },
  };
}
