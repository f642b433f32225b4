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
    open: async () => await openSandbox(isolate),
  };
  await mustRun(peer.once(['/bin/true']));
  return peer;
}

async function openSandbox(isolate: readonly string[]): Promise<PeerSandbox> {
  const [file = '', ...rest] = isolate;
  const words = [...rest, '--info-fd', '3', '/bin/sh', '-c', 'echo ready; exec sleep 86400'];
  const child = spawn(file, words, { stdio: ['ignore', 'pipe', 'ignore', 'pipe'] });
  const exited = once(child, 'close');
  const [, stdout, , info] = child.stdio;
  if (!stdout || !info) throw new Error('bwrap has no pipes');
  let told = '';
  info.on('data', (chunk: Buffer) => (told += chunk.toString()));
  await Promise.race([
    once(stdout, 'data'),
    exited.then(() => {
      throw new Error('bwrap ended before its command ran');
    }),
  ]);
  // Written before the command is started.
  const inner = Number(/"child-pid": (\d+)/.exec(told)?.[1] ?? 0);
  const outer = child.pid ?? 0;
  return {
    pids: async () => [outer, ...(await descendants(outer))],
    destroy: async () => {
      // Its PID 1, whose end is the monitor's end. A monitor killed first now and then leaves PID 1 alive.
      if (inner > 1) process.kill(inner, 'SIGKILL');
      else child.kill('SIGKILL');
      await exited;
    },
  };
}
