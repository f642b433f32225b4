/** Bubblewrap alone: the floor of what namespaces cost with the tool that Squash itself builds on. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { descendants } from '../measure/proc-memory.ts';
import { mustRun } from '../measure/process.ts';
import type { Peer, PeerLab, PeerSandbox } from './peer.ts';

export async function bubblewrap(lab: PeerLab): Promise<Peer> {
  const isolate = [
    'bwrap',
    '--unshare-all',
    '--unshare-user',
    '--uid',
    '0',
    '--gid',
    '0',
    '--clearenv',

    '--ro-bind',
    lab.rootfs,
    '/',
    '--dev',
    '/dev',
    '--proc',
    '/proc',
    '--tmpfs',
    '/tmp',
    '--die-with-parent',
  ];
  const version = await mustRun(['bwrap', '--version']);
  const peer: Peer = {
    name: 'bubblewrap',
    note: `${version.trim()}: all namespaces, read-only root, a new sandbox for each command`,
    env: process.env,
    every: 1,
    once: (command) => [...isolate, ...command],
    open: async () => await openSandbox([...isolate, '/bin/sh', '-c', 'echo ready; exec sleep 86400']),
  };
  await mustRun(peer.once(['/bin/true']));
  return peer;
}

async function openSandbox(argv: readonly string[]): Promise<PeerSandbox> {
  const [file = '', ...rest] = argv;
  const child = spawn(file, rest, { stdio: ['ignore', 'pipe', 'ignore'] });
  const exited = once(child, 'close');
  await Promise.race([
    once(child.stdout, 'data'),
    exited.then(() => {
      throw new Error('bwrap ended before its command ran');
    }),
  ]);
  const pid = child.pid ?? 0;
  return {
    pids: async () => [pid, ...(await descendants(pid))],
    destroy: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
