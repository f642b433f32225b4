/**
 * Podman with the lightest settings it has: no network, an image imported from a tarball, storage of its own.
 * `runc` and the two ulimits are what lets it run inside containers and small virtual machines as well.
 */
import { join } from 'node:path';
import { rm } from 'node:fs/promises';
import { descendants } from '../measure/proc-memory.ts';
import { mustRun, run } from '../measure/process.ts';
import type { Peer, PeerLab, PeerSandbox } from './peer.ts';

const runFlags = [
  '--network',
  'none',
  '--ulimit',
  'nofile=1024:4096',
  '--ulimit',
  'nproc=1000:1000',
  '--log-driver',
  'none',
];

export const runOnce = ['run', '--rm', ...runFlags] as const;

export interface Podman {
  /** What every call begins with. */
  readonly base: readonly string[];
  readonly env: NodeJS.ProcessEnv;
}

/** One with storage of its own below `workDir`, which goes with the stack. */
export function ownPodman(workDir: string, stack: AsyncDisposableStack): Podman {
  const base = [
    'podman',
    '--root',
    join(workDir, 'storage'),
    '--runroot',
    join(workDir, 'run'),
    '--tmpdir',
    join(workDir, 'tmp'),
    '--network-config-dir',
    join(workDir, 'net'),
    '--runtime',
    'runc',
    '--cgroup-manager',
    'cgroupfs',
    '--events-backend',
    'none',
  ];
  // Rootless it keeps its socket and locks in these, whatever the flags say.
  const env = { ...process.env, TMPDIR: workDir, XDG_RUNTIME_DIR: workDir };
  stack.defer(async () => {
    await run([...base, 'rm', '--all', '--force', '--time', '0'], { env });
    // Its storage driver bind-mounts the storage onto itself; rm would stop at that mount.
    await run(['umount', '--lazy', join(workDir, 'storage/overlay')]);
    // Rootless storage belongs to subordinate ids: only podman's own namespace may remove it.
    if (process.getuid?.() !== 0)
      await run([...base, 'unshare', 'rm', '-rf', join(workDir, 'storage')], { env });
    await rm(workDir, { recursive: true, force: true });
  });
  return { base, env };
}

export async function podman(lab: PeerLab, stack: AsyncDisposableStack): Promise<Peer> {
  const { base, env } = ownPodman(lab.workDir, stack);
  const tarball = join(lab.workDir, 'rootfs.tar');
  await mustRun(['tar', '-C', lab.rootfs, '-cf', tarball, '.']);
  await mustRun([...base, 'import', tarball, 'localhost/bench:1'], { env });
  const version = await mustRun(['podman', '--version']);
  const peer: Peer = {
    name: 'podman',
    note: `${version.trim()} with runc: no network, local image`,
    env,
    every: 8,
    once: (command) => [...base, ...runOnce, 'localhost/bench:1', ...command],
    open: async () => await openContainer(base, env),
  };
  await mustRun(peer.once(['/bin/true']), { env });
  return peer;
}

async function openContainer(base: readonly string[], env: NodeJS.ProcessEnv): Promise<PeerSandbox> {
  const started = await mustRun(
    [...base, 'run', '--detach', ...runFlags, 'localhost/bench:1', '/bin/sleep', '86400'],
    { env },
  );
  const id = started.trim();
  return {
    exec: (command) => [...base, 'exec', id, ...command],
    pids: async () => {
      const format = '{{.State.Pid}} {{.State.ConmonPid}}';
      const shown = await mustRun([...base, 'inspect', '--format', format, id], { env });
      const [main = 0, monitor = 0] = shown.trim().split(' ').map(Number);
      return [...new Set([main, monitor, ...(await descendants(monitor))])];
    },
    destroy: async () => {
      await mustRun([...base, 'rm', '--force', '--time', '0', id], { env });
    },
  };
}
