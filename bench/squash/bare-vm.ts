/**
 * A guest without Squash around it: the same programs from the VM module, the same kernel, initramfs, disks and command line, started on
 * this machine, and a client of its PID 1.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { qemu } from '../../host/src/drivers/microvm/qemu.ts';
import type { VmmCommand } from '../../host/src/drivers/microvm/vmm-channel.ts';
import { GuestClient } from '../../host/src/guest/client.ts';
import { plainCommand } from './guest-exec.ts';

const bootMsMax = 120_000;
const memoryBytes = 256 * 1_048_576;

/** @param dataDir of a Squash whose VMs all have the same layers, and that has started one @returns milliseconds from the start to the first output */
export async function bareBoot(dataDir: string, workDir: string): Promise<number> {
  const place = await mkdtemp(join(workDir, 'bare-'));
  const running: ChildProcess[] = [];
  const began = performance.now();
  try {
    const ready = createServer().listen(join(place, 'v.sock_1'));
    const come = once(ready, 'connection', { signal: AbortSignal.timeout(bootMsMax) });
    const run = await runner(dataDir, place);
    for (const command of qemu.start(await planOf(dataDir, place)).commands) {
      const child = run(command);
      running.push(child);
      if (command.how === 'make') await once(child, 'exit');
      else if (command.path !== undefined) await untilListening(command.path.replace('/dev/shm', place));
    }
    const [socket] = (await come) as [Duplex];
    socket.destroy();
    ready.close();
    await firstOutput(join(place, 'v.sock'));
    return performance.now() - began;
  } finally {
    for (const child of running) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    }
    await rm(place, { recursive: true });
  }
}

async function planOf(dataDir: string, place: string) {
  const root = await moduleRoot(dataDir);
  const initrd = (await readdir(join(dataDir, 'vm'))).find((name) => name.startsWith('initrd-')) ?? '';
  // Also the one of what is trusted, whose name is another in each run.
  const disks = await readdir(join(dataDir, 'vm/layers'));
  return {
    accelerator: 'tcg' as const,
    kernel: join(root, 'boot/vmlinux'),
    initrd: join(dataDir, 'vm', initrd),
    lowers: disks.map((name) => join(dataDir, 'vm/layers', name)),
    upper: { path: join(place, 'disk'), bytes: 768 * 1_048_576, inodes: 16_384 },
    memoryBytes,
    hostname: 'bare',
    cpuMilli: 1000,
    shmBytes: 64 * 1_048_576,
    openFilesMax: 65_536,
    pidsMax: 1_024,
    hasNetwork: true,
    mounts: [],
    unixSeconds: Math.floor(Date.now() / 1000),
  };
}

async function moduleRoot(dataDir: string): Promise<string> {
  const digest = (await readdir(join(dataDir, 'vm'))).find((name) => /^[0-9a-f]{64}$/.test(name));
  if (digest === undefined) throw new Error('no VM has been started yet');
  return join(dataDir, 'vm', digest);
}

/** The module's programs run on its own libraries, whatever this machine has. */
async function runner(dataDir: string, place: string): Promise<(command: VmmCommand) => ChildProcess> {
  const root = await moduleRoot(dataDir);
  const libraries = ['usr/lib/x86_64-linux-gnu', 'usr/lib', 'lib/x86_64-linux-gnu'].map((each) =>
    join(root, each),
  );
  const linker = join(root, 'usr/lib64/ld-linux-x86-64.so.2');
  const megahertz = /^cpu MHz\s*: ([\d.]+)$/m.exec(readFileSync('/proc/cpuinfo', 'latin1'))?.[1];
  const khz = String(Math.round(Number(megahertz) * 1000));
  return ({ argv, path }) => {
    const [program = '', ...words] = argv.map((word) =>
      word
        .replaceAll('/dev/shm', place)
        .replace('{tsc_khz}', khz)
        .replaceAll(`${path ?? '//'}.new`, path ?? ''),
    );
    const firmware = program.includes('qemu') ? ['-L', join(root, 'usr/share/qemu')] : [];
    return spawn(
      linker,
      ['--library-path', libraries.join(':'), join(root, program), ...firmware, ...words],
      {
        stdio: 'ignore',
        env: {},
      },
    );
  };
}

async function untilListening(path: string): Promise<void> {
  for (const late = performance.now() + 10_000; performance.now() < late; await sleep(2)) {
    if (readFileSync('/proc/net/unix', 'latin1').includes(path)) return;
  }
  throw new Error(`nobody listens at ${path}`);
}

async function firstOutput(path: string): Promise<void> {
  const client = new GuestClient({ connect: () => connect(path), answerDeadlineMs: bootMsMax });
  const exec = await client.exec(plainCommand('1', '/bin/echo', 'first'));
  for await (const event of exec.events()) if (event.type !== 'exit') break;
  exec.close();
}

async function connect(path: string): Promise<Duplex> {
  const socket = createConnection(path);
  await once(socket, 'connect');
  socket.write('CONNECT 1024\n');
  for (let line = ''; !line.endsWith('\n'); ) {
    const byte = socket.read(1) as Buffer | null;
    if (byte === null) await once(socket, 'readable');
    else line += byte.toString('latin1');
  }
  return socket;
}
