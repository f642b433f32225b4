/**
 * One layer made readable in one of the three ways, below an overlay with an empty upper as in a sandbox, in a
 * mount namespace of its own. The namespace is held by one process: when that ends, the kernel unmounts all.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { lastLine, mustRun } from '../measure/process.ts';
import { unpackFlags } from './image-tools.ts';

export const readWays = ['unpacked', 'squashfuse', 'kernel squashfs'] as const;
export type ReadWay = (typeof readWays)[number];

export interface MountedLayer {
  /** argv that runs a command with the layer as its root, in bubblewrap. */
  command(argv: readonly string[]): readonly string[];
  close(): Promise<void>;
}

/** @throws with the last words of mount where this way does not work here */
export async function mountLayer(way: ReadWay, image: string, workDir: string): Promise<MountedLayer> {
  const isRoot = process.getuid?.() === 0;
  if (way === 'kernel squashfs' && !isRoot) throw new Error('a loop mount needs root');
  for (const name of ['second', 'upper', 'work', 'root'])
    await mkdir(join(workDir, name), { recursive: true });
  const lower = join(workDir, 'lower');
  const mountLower: Record<ReadWay, string> = {
    unpacked: ':',
    // Stays in the foreground of the namespace's holder, so that it ends with it.
    squashfuse: 'mkdir lower; squashfuse "$image" lower',
    'kernel squashfs': 'mkdir lower; mount -t squashfs -o loop,ro "$image" lower',
  };
  if (way === 'unpacked') await mustRun(['unsquashfs', ...unpackFlags, '-d', lower, image]);
  const overlay = `lowerdir=second:lower,upperdir=upper,workdir=work${isRoot ? '' : ',userxattr'}`;
  const script = `set -e; image=$1; cd "$2"; ${mountLower[way]}
    mount -t overlay overlay -o ${overlay} root; echo ready; read -r _ || :; umount root; umount lower 2>/dev/null || :`;
  const namespaces = [
    '--mount',
    '--propagation',
    'private',
    ...(isRoot ? [] : ['--user', '--map-root-user']),
  ];
  const holder = spawn('unshare', [...namespaces, 'sh', '-c', script, 'sh', image, workDir], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const ended = once(holder, 'exit');
  let stderr = '';
  holder.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  await Promise.race([
    once(holder.stdout, 'data'),
    ended.then(() => {
      throw new Error(lastLine(stderr) || 'mount ended without a word');
    }),
  ]);
  const enter = isRoot ? ['--mount'] : ['--user', '--preserve-credentials', '--mount'];
  return {
    command: (argv) => [
      'nsenter',
      ...enter,
      `--target=${holder.pid}`,
      'bwrap',
      '--bind',
      join(workDir, 'root'),
      '/',
      '--dev',
      '/dev',
      '--proc',
      '/proc',
      '--unshare-pid',
      '--clearenv',
      '--setenv',
      'PATH',
      '/usr/bin',
      '--setenv',
      'HOME',
      '/tmp',
      ...argv,
    ],
    close: async () => {
      holder.stdin.end();
      await ended;
    },
  };
}
