/**
 * An image of a registry on loopback, from nothing to a command's end: pulled, then started for the first time and once more. Beside
 * podman, which pulls the same image into storage of its own.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun, timed } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { ownPodman, type Podman, runOnce } from '../peers/podman.ts';
import { type SquashUnderTest, freePort } from '../squash/daemon.ts';
import { makeTree } from '../squash/file-tree.ts';
import { DockerRegistry } from '../../tests/support/docker-registry.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

const megabytes = 60;

export async function imagesScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  const workDir = join(context.workDir, 'images');
  await mkdir(workDir);
  const port = 'absent' in context.squash ? await freePort() : context.squash.registryPort;
  stack.use(await DockerRegistry.start({ directory: workDir, port }));
  const podman = ownPodman(join(workDir, 'podman'), stack);
  await mkdir(join(workDir, 'podman'));
  const image = `localhost:${port}/bench:1`;
  await pushImage({
    podman,
    image,
    rootfs: join(context.workDir, 'rootfs'),
    context: join(workDir, 'context'),
  });
  return {
    id: 'images',
    title: 'OCI images',
    about: `An image of two layers, ${megabytes} MB in ${megabytes * 16} files (half of them random, half text) on a busybox, compressed with gzip, from Debian's docker-registry on loopback. "pull" with nothing of it here; "first start" is a sandbox or container from it until \`true\` has ended, "next start" another one. Squash makes a squashfs file of each layer, unpacks it, and has both on the disk before it answers.`,
    metrics: [
      { id: 'pull', title: 'pull', unit: 'ms' },
      { id: 'first', title: 'first start', unit: 'ms' },
      { id: 'next', title: 'next start', unit: 'ms' },
    ],
    warmups: context.quick ? 0 : 1,
    rounds: rounds(context, 8),
    subjects: [
      ...(await squashSubjects(context, async (squash) => [squashSubject(squash, image)])),
      podmanSubject(podman, image),
    ],
  };
}

function squashSubject({ client }: SquashUnderTest, image: string): Subject {
  const start = async (): Promise<number> => {
    let id = '';
    const tookMs = await timed(async () => {
      id = await client.createFromImage(image);
      await client.run(id, ['true']);
    });
    await client.destroy(id);
    return tookMs;
  };
  return {
    name: 'Squash',
    cycle: async () => {
      const pull = await timed(() => client.pullImage(image));
      const sample = { pull, first: await start(), next: await start() };
      await client.removeImage(image);
      return sample;
    },
  };
}

function podmanSubject({ base, env }: Podman, image: string): Subject {
  const start = (): Promise<number> =>
    timed(() => mustRun([...base, ...runOnce, image, '/bin/true'], { env }));
  return {
    name: 'podman',
    cycle: async () => {
      const pull = await timed(() => mustRun([...base, 'pull', '--tls-verify=false', image], { env }));
      const sample = { pull, first: await start(), next: await start() };
      await mustRun([...base, 'rmi', '--force', image], { env });
      return sample;
    },
  };
}

async function pushImage(plan: {
  readonly podman: Podman;
  readonly image: string;
  readonly rootfs: string;
  readonly context: string;
}): Promise<void> {
  const { base, env } = plan.podman;
  await mkdir(plan.context);
  await mustRun(['cp', '-a', plan.rootfs, join(plan.context, 'rootfs')]);
  await makeTree(join(plan.context, 'tree'), megabytes);
  await writeFile(join(plan.context, 'Dockerfile'), 'FROM scratch\nCOPY rootfs /\nCOPY tree /opt/tree\n');
  await mustRun([...base, 'build', '--layers', '--tag', plan.image, plan.context], { env });
  await mustRun([...base, 'push', '--tls-verify=false', plan.image], { env });
  await mustRun([...base, 'rmi', '--all', '--force'], { env });
}
