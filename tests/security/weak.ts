/**
 * A deliberately weakened sandbox: the attacker's script as root of this machine, with only the namespaces that
 * keep the machine itself whole (mounts and host name are private, processes too where the attempt lets them).
 * Where an attempt does not succeed here, its failure in a real sandbox proves nothing.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { AttemptOutput, WeakKind } from './attempt.ts';

const namespaces: Record<WeakKind, readonly string[]> = {
  namespaces: [
    '--mount',
    '--uts',
    '--pid',
    '--fork',
    '--kill-child',
    '--mount-proc',
    '--propagation',
    'private',
  ],
  shared: ['--mount', '--uts', '--propagation', 'private'],
  chroot: ['--mount', '--uts', '--propagation', 'private'],
};

/** Longer than the slowest control, a gigabyte written; a hung one must not hang the suite. */
const controlMsMax = 60_000;

export async function runWeak(program: string, kind: WeakKind, script: string): Promise<AttemptOutput> {
  const folder = await mkdtemp(join(tmpdir(), 'squash-weak-'));
  try {
    let command = ['sh', '-c', script];
    let env: Record<string, string> = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', A: program };
    if (kind === 'chroot') {
      await mkdir(join(folder, 'bin'));
      await copyFile('/bin/busybox', join(folder, 'bin/sh'));
      await copyFile(program, join(folder, 'attack'));
      command = ['chroot', folder, '/bin/sh', '-c', script];
      env = { PATH: '/bin', A: '/attack' };
    }
    const child = spawn('/usr/bin/unshare', [...namespaces[kind], '--', ...command], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: kind === 'chroot' ? { ...env, PATH: '/usr/sbin:/usr/bin:/sbin:/bin' } : env,
      timeout: controlMsMax,
      killSignal: 'SIGKILL',
    });
    const ended = once(child, 'close');
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    await ended;
    return { exitCode: child.exitCode ?? 255, stdout, stderr };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
