/**
 * Snapshot and restore of an upper of a given size, beside mksquashfs and unsquashfs alone on the same files
 * with the same settings: what is above those is Squash's own. A restore that survives a power cut needs the tree on the
 * disk, so one `syncfs` counts with unsquashfs; the start of PID 1 is measured by a create and told apart.
 */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun, timed } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { makeTree } from '../squash/file-tree.ts';
import { packFlags, unpackFlags } from '../squash/image-tools.ts';
import type { SquashUnderTest } from '../squash/daemon.ts';
import { type Context, squashSubjects } from './context.ts';

export function snapshotScenario(megabytes: 1 | 10 | 100 | 500, fullRounds: number) {
  return async (context: Context): Promise<Scenario> => {
    const directory = join(context.workDir, `tree-${megabytes}`);
    await makeTree(directory, megabytes);
    return {
      id: `snapshot-${megabytes}`,
      title: `Snapshot and restore, ${megabytes} MB`,
      about: `An upper of ${megabytes} MB in files of 64 KiB, half of them random and half text. Squash also syncs the snapshot to the disk, checks the digest, and restarts the sandbox on the restored tree; each snapshot is a new one, so nothing is found unpacked. A create of another sandbox right before stands for the start of PID 1. A fork is another sandbox with the files as they are now, which goes on by itself: packed, unpacked, on the disk and started; for the bare tools both of theirs.`,
      metrics: [
        { id: 'snapshot', title: `snapshot of ${megabytes} MB`, unit: 'ms' },
        { id: 'restore', title: `restore of ${megabytes} MB`, unit: 'ms' },
        { id: 'unpack', title: `restore of ${megabytes} MB, less a start of PID 1`, unit: 'ms' },
        { id: 'fork', title: `fork of ${megabytes} MB`, unit: 'ms' },
      ],
      warmups: context.quick ? 0 : 1,
      rounds: context.quick ? 2 : fullRounds,
      subjects: [
        ...(await squashSubjects(context, async (squash) => [await squashSubject(squash, directory)])),
        bareTools(directory),
      ],
    };
  };
}

async function squashSubject(squash: SquashUnderTest, directory: string): Promise<Subject> {
  const tarball = `${directory}.tar`;
  await mustRun(['tar', '-C', directory, '-cf', tarball, '.']);
  const bytes = await readFile(tarball);
  await rm(tarball);
  return {
    name: 'Squash',
    cycle: async (round) => {
      const id = squash.nextId();
      await squash.client.create(id, squash.layers);
      const other = squash.nextId();
      try {
        await squash.client.stream(id, ['tar', '-xf', '-', '-C', '/root'], bytes);
        // A content that no earlier round had: else its layer would be found unpacked.
        await squash.client.exec(id, `echo ${id} ${round} $(date) > /root/round; sync`);
        const snapshot = await timed(() => squash.client.snapshot(id, 's'));
        const start = await timed(() => squash.client.create(other, squash.layers));
        const restore = await timed(() => squash.client.restore(id, 's'));
        await squash.client.destroy(other);
        await squash.client.exec(id, `grep -q '^${id} ' /root/round`);
        await squash.client.exec(id, `cp -r /root /again; echo ${round} > /again/round; sync`);
        let fork = '';
        const forking = await timed(async () => {
          fork = await squash.client.fork(id);
        });
        await squash.client.destroy(fork);
        return { snapshot, restore, unpack: restore - start, fork: forking };
      } finally {
        await squash.client.destroy(id);
      }
    },
  };
}

function bareTools(directory: string): Subject {
  const image = `${directory}.squashfs`;
  const unpacked = `${directory}.unpacked`;
  return {
    name: 'mksquashfs / unsquashfs and one syncfs',
    cycle: async () => {
      const snapshot = await timed(() => mustRun(['mksquashfs', directory, image, ...packFlags]));
      // Squash's is on the disk by now: it must not count again.
      await mustRun(['sync', '-f', image]);
      const restore = await timed(async () => {
        await mustRun(['unsquashfs', ...unpackFlags, '-d', unpacked, image]);
        await mustRun(['sync', '-f', unpacked]);
      });
      await rm(unpacked, { recursive: true });
      await rm(image);
      return { snapshot, restore, unpack: restore, fork: snapshot + restore };
    },
  };
}
