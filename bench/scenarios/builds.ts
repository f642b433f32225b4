/**
 * An image from a Dockerfile by the command line, from nothing, after its last line has changed, and with nothing changed. Beside
 * podman, which builds the same in storage of its own.
 */
import { randomBytes } from 'node:crypto';
import { cp, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun, timed } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { ownPodman, type Podman } from '../peers/podman.ts';
import type { SquashUnderTest } from '../squash/daemon.ts';
import { makeTree } from '../squash/file-tree.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

const megabytes = 20;
const base = 'localhost/bench-base:1';

export async function buildsScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  const workDir = join(context.workDir, 'builds');
  const podman = ownPodman(join(workDir, 'podman'), stack);
  await mkdir(join(workDir, 'podman'), { recursive: true });
  const own = join(workDir, 'base');
  await mkdir(own);
  await cp(join(context.workDir, 'rootfs'), join(own, 'rootfs'), { recursive: true, verbatimSymlinks: true });
  await writeFile(join(own, 'Dockerfile'), 'FROM scratch\nCOPY rootfs /\n');
  await mustRun([...podman.base, 'build', '--tag', base, own], { env: podman.env });
  const place = join(workDir, 'context');
  await makeTree(join(place, 'tree'), megabytes);
  return {
    id: 'builds',
    title: 'Builds',
    about: `A Dockerfile of three steps on a busybox: COPY of ${megabytes} MB in ${megabytes * 16} files (half of them random, half text), and two RUN that write a line. "all" with no step done before, "last line" with another last RUN, "nothing" with the same again. Each is one call of the command line, whose own start counts. podman keeps its layers as directories and makes an image of them where it is pushed; Squash packs each step as a squashfs file and unpacks it for the next, both on the disk before it goes on.`,
    metrics: [
      { id: 'all', title: 'build, all', unit: 'ms' },
      { id: 'last', title: 'build, last line', unit: 'ms' },
      { id: 'nothing', title: 'build, nothing', unit: 'ms' },
    ],
    warmups: context.quick ? 0 : 1,
    rounds: rounds(context, 8),
    subjects: [
      ...(await squashSubjects(context, async (squash) => [await squashSubject(squash, place)])),
      podmanSubject(podman, place),
    ],
  };
}

/** `build` makes all of what the context says. */
async function cycle(place: string, build: () => Promise<void>): Promise<Record<string, number>> {
  const first = randomBytes(8).toString('hex');
  const write = (last: string): Promise<void> =>
    writeFile(
      join(place, 'Dockerfile'),
      `FROM ${base}\nCOPY tree /opt/tree\nRUN echo ${first} >/first\nRUN echo ${last} >/last\n`,
    );
  // So that no step of an earlier round is found.
  await writeFile(join(place, 'tree/round'), first);
  await write('one');
  const all = await timed(build);
  await write('two');
  const last = await timed(build);
  return { all, last, nothing: await timed(build) };
}

async function squashSubject(squash: SquashUnderTest, place: string): Promise<Subject> {
  const id = squash.nextId();
  await squash.client.create(id, squash.layers);
  await mustRun(squash.cli('image', 'commit', id, base), { env: squash.env });
  await squash.client.destroy(id);
  const words = squash.cli('build', '--quiet', '-t', 'bench-built:1', place);
  return {
    name: 'Squash',
    cycle: async () => {
      const sample = await cycle(place, () => mustRun(words, { env: squash.env }).then(() => undefined));
      await mustRun(squash.cli('build', '--prune'), { env: squash.env });
      return sample;
    },
  };
}

function podmanSubject({ base: podman, env }: Podman, place: string): Subject {
  const words = [...podman, 'build', '--layers', '--quiet', '--tag', 'bench-built:1', place];
  return {
    name: 'podman',
    cycle: async () => await cycle(place, () => mustRun(words, { env }).then(() => undefined)),
  };
}
