/** gVisor's `runsc` by itself, without a container engine: ptrace platform, no network, no cgroup. */
import { mkdir, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { descendants } from '../measure/proc-memory.ts';
import { mustRun, run } from '../measure/process.ts';
import type { Peer, PeerLab, PeerSandbox } from './peer.ts';

/** Debian 12's gVisor knows ptrace and kvm only; kvm needs a device that few machines of this kind have. */
const platform = 'ptrace';

export async function runsc(lab: PeerLab, stack: AsyncDisposableStack): Promise<Peer> {
  const base = ['runsc', '--root', join(lab.workDir, 'state'), `--platform=${platform}`];
  base.push('--network=none', '--ignore-cgroups');
  if (process.getuid?.() !== 0) base.push('--rootless');
  let number = 0;
  const bundle = async (args: readonly string[]): Promise<string> => {
    const directory = join(lab.workDir, `bundle${++number}`);
    await mkdir(directory);
    await writeFile(join(directory, 'config.json'), JSON.stringify(ociConfig(lab.rootfs, args)));
    return directory;
  };
  const version = await mustRun(['runsc', '--version']);
  stack.defer(async () => {
    const listed = await run([...base, 'list', '--quiet']);
    for (const id of listed.stdout.split('\n').filter(Boolean)) await run([...base, 'delete', '--force', id]);
  });
  const bundles = new Map<string, string>();
  for (const args of [['/bin/true'], ['/bin/echo', 'ok']]) bundles.set(args.join(' '), await bundle(args));
  const bundleOf = (args: readonly string[]): string => {
    const found = bundles.get(args.join(' '));
    if (found === undefined) throw new Error(`no bundle for ${args.join(' ')}`);
    return found;
  };
  const peer: Peer = {
    name: 'runsc',
    note: `gVisor ${version.split('\n')[0] ?? ''} (platform ${platform}), no container engine around it`,
    env: process.env,
    every: 8,
    once: (command) => [...base, 'run', '--bundle', bundleOf(command), `bench${++number}`],
    // A bundle for each sandbox: its path is what names the sandbox's processes.
    open: async () => await openContainer(base, await bundle(['/bin/sleep', '86400'])),
  };
  await mustRun(peer.once(['/bin/true']));
  return peer;
}

async function openContainer(base: readonly string[], bundle: string): Promise<PeerSandbox> {
  const id = basename(bundle);
  // Detached sandbox processes inherit stdout: it must not be a pipe that someone reads to its end.
  const quiet = 'exec "$@" </dev/null >/dev/null 2>&1';
  const { code } = await run(['sh', '-c', quiet, 'sh', ...base, 'run', '--detach', '--bundle', bundle, id]);
  if (code !== 0) throw new Error(`runsc run --detach exited with ${code}`);
  return {
    exec: (command) => [...base, 'exec', id, ...command],
    pids: async () => await processesNaming(bundle),
    destroy: async () => {
      await mustRun([...base, 'delete', '--force', id]);
    },
  };
}

/** The sandbox and its gofer are children of init; both carry the bundle's path in their arguments. */
async function processesNaming(bundle: string): Promise<number[]> {
  const listed = await mustRun(['ps', '-eo', 'pid=,args=']);
  const own = listed
    .split('\n')
    .filter((line) => /\brunsc-/.test(line) && line.split(/[ =]/).includes(bundle))
    .map((line) => Number.parseInt(line, 10));
  const below = await Promise.all(own.map(async (pid) => await descendants(pid)));
  return [...own, ...below.flat()];
}

function ociConfig(rootfs: string, args: readonly string[]): unknown {
  return {
    ociVersion: '1.0.0',
    process: { terminal: false, user: { uid: 0, gid: 0 }, args, env: ['PATH=/bin'], cwd: '/' },
    root: { path: rootfs, readonly: true },
    hostname: 'bench',
    mounts: [{ destination: '/proc', type: 'proc', source: 'proc' }],
    linux: { namespaces: ['pid', 'ipc', 'uts', 'mount'].map((type) => ({ type })) },
  };
}
