/**
 * A microVM without a driver: the guest's own part, booted by the real QEMU on Debian's cloud kernel, and a client of its `squash-init`
 * over vsock. It is emulated, so it needs no right and no CPU feature.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { createConnection, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { promisify } from 'node:util';
import { makeInitrd } from '../../../host/src/drivers/microvm/initrd.ts';
import { GuestClient } from '../../../host/src/guest/client.ts';
import { repository } from '../../support/base-layer.ts';
import { debianPackage } from '../../support/debian-package.ts';
import { ownedPrefix } from '../../support/owned-directory.ts';
import { waitFor } from '../../support/wait.ts';

const run = promisify(execFile);
/** 8 s on this machine where nothing else runs. */
const bootMsMax = 120_000;
const memoryMiB = 256;
const programs = join(repository, 'native/build/x86_64');
const path = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;

/** In load order: the kernel looks for none by itself. The last is an attacker's, who reaches his own machine by it. */
const moduleNames = [
  'virtio_mmio',
  'virtio_blk',
  'failover',
  'net_failover',
  'virtio_net',
  'vsock',
  'vmw_vsock_virtio_transport_common',
  'vmw_vsock_virtio_transport',
  'virtio-rng',
  'virtio_balloon',
  'squashfs',
  'overlay',
  'vsock_loopback',
];

/** What all boots of a file share. */
export interface Parts {
  readonly folder: string;
  readonly kernel: string;
  readonly initrd: string;
  readonly vsock: string;
  /** A small file system with `data` and `work`, with room for a few megabytes. */
  readonly upper: string;
}

/** Fetches what this machine has not, in the first run, and makes the rest in a folder of the caller's. */
export async function makeParts(folder: string): Promise<Parts> {
  const image = await debianPackage('trixie', /^linux-image-6\.12\.\d+\+deb13-cloud-amd64$/);
  const vsock = await debianPackage('sid', /^vhost-device-vsock$/);
  const boot = join(image, 'boot');
  const kernel = (await readdir(boot)).find((name) => name.startsWith('vmlinuz-'));
  if (kernel === undefined) throw new Error(`${image} holds no kernel`);
  const modules = join(folder, 'modules');
  await mkdir(modules);
  const found = (await readdir(image, { recursive: true })).filter((name) => name.endsWith('.ko.xz'));
  for (const [index, name] of moduleNames.entries()) {
    const file = found.find((each) => each.endsWith(`/${name}.ko.xz`));
    if (file === undefined) throw new Error(`${image} holds no module ${name}`);
    const to = join(modules, `${String(index).padStart(2, '0')}-${name}.ko`);
    await cp(join(image, file), `${to}.xz`);
    await run('xz', ['-d', `${to}.xz`]);
  }
  const initrd = join(folder, 'initrd');
  const init = join(programs, 'squash-init');
  await writeFile(initrd, await makeInitrd({ boot: join(programs, 'squash-boot'), init, modules }));
  return {
    folder,
    kernel: join(boot, kernel),
    initrd,
    vsock: join(vsock, 'usr/bin/vhost-device-vsock'),
    upper: await makeUpper(folder),
  };
}

async function makeUpper(folder: string): Promise<string> {
  const upper = join(folder, 'upper');
  const tree = join(folder, 'upper.tree');
  await mkdir(join(tree, 'data'), { recursive: true });
  await mkdir(join(tree, 'work'));
  await writeFile(upper, '');
  await truncate(upper, 64 * 1024 * 1024);
  await run('mke2fs', ['-q', '-t', 'ext4', '-E', 'root_owner=0:0', '-d', tree, upper], {
    env: { ...process.env, PATH: path },
  });
  return upper;
}

export interface BootOptions {
  /** Squashfs files, topmost first. */
  readonly lowers: readonly string[];
  readonly upper: string;
  /** The `squash.` words, but for the number of lowers. */
  readonly words: readonly string[];
}

export class Machine implements AsyncDisposable {
  readonly client: GuestClient;
  /** From the emulator's start to the guest's word that it is ready. */
  bootMs = 0;
  readonly #place: string;
  readonly #resources: AsyncDisposableStack;
  readonly #emulator: ChildProcess;

  private constructor(place: string, emulator: ChildProcess, resources: AsyncDisposableStack) {
    this.#place = place;
    this.#emulator = emulator;
    this.#resources = resources;
    this.client = new GuestClient({ connect: () => this.connect(), answerDeadlineMs: 30_000 });
  }

  /** Resolves when the emulator runs: `ready` or `ended` is next. */
  static async start(parts: Parts, options: BootOptions): Promise<Machine> {
    await using stack = new AsyncDisposableStack();
    const place = await mkdtemp(join(tmpdir(), ownedPrefix('microvm')));
    stack.defer(() => rm(place, { recursive: true }));
    const socket = join(place, 'vhost');
    // Before QEMU, which connects at its start.
    const listens = ['--socket', socket, '--uds-path', join(place, 'v')];
    // A guest sends no packet that is longer. From 32 KiB on Linux (6.17, and 6.12 as Debian has it) gives them in several pieces, and those are dropped.
    const vsock = startProgram(place, parts.vsock, [...listens, '--tx-buffer-size', '16384']);
    stack.defer(() => endProgram(vsock));
    await waitFor('vhost-device-vsock to listen', () => existsSync(socket));
    const emulator = startProgram(place, 'qemu-system-x86_64', await emulatorWords(place, parts, options));
    stack.defer(() => endProgram(emulator));
    return new Machine(place, emulator, stack.move());
  }

  static async boot(parts: Parts, options: BootOptions): Promise<Machine> {
    await using stack = new AsyncDisposableStack();
    const machine = stack.use(await Machine.start(parts, options));
    await machine.ready();
    stack.move();
    return machine;
  }

  /** The guest connects to the host once, when it listens. @throws with the end of the console where it ends instead */
  async ready(): Promise<void> {
    const began = performance.now();
    await using server = createServer().listen(join(this.#place, 'v_1'));
    const told = once(server, 'connection', { signal: AbortSignal.timeout(bootMsMax) });
    const [what] = (await Promise.race([told, once(this.#emulator, 'exit').then(() => [])])) as [Socket?];
    if (what === undefined) throw new Error(`the machine has ended:\n${(await this.console()).slice(-3000)}`);
    what.destroy();
    this.bootMs = performance.now() - began;
  }

  /** Resolves when the machine has gone off by itself. @returns what it wrote to its console */
  async ended(): Promise<string> {
    if (this.#emulator.exitCode === null)
      await once(this.#emulator, 'exit', { signal: AbortSignal.timeout(bootMsMax) });
    return await this.console();
  }

  async console(): Promise<string> {
    return await readFile(join(this.#place, 'console'), 'latin1');
  }

  async connect(port = 1024): Promise<Duplex> {
    const socket = createConnection({ path: join(this.#place, 'v'), allowHalfOpen: true });
    await once(socket, 'connect');
    socket.write(`CONNECT ${port}\n`);
    const answer = await firstLine(socket);
    if (!/^OK \d+$/.test(answer)) throw new Error(`no connection to port ${port}: ${JSON.stringify(answer)}`);
    return socket;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#resources.disposeAsync();
  }
}

/** No byte behind it may be taken: it is the guest's. */
async function firstLine(socket: Socket): Promise<string> {
  let line = '';
  for (;;) {
    const byte = socket.read(1) as Buffer | null;
    if (byte === null) {
      if (socket.readableEnded || socket.destroyed) return line;
      await Promise.race([once(socket, 'readable'), once(socket, 'end')]);
    } else if (byte.toString() === '\n') {
      return line;
    } else {
      line += byte.toString('latin1');
    }
  }
}

function startProgram(place: string, program: string, words: readonly string[]): ChildProcess {
  // A test that is killed disposes of nothing.
  return spawn('setpriv', ['--pdeathsig', 'SIGKILL', '--', program, ...words], {
    cwd: place,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { PATH: path, TMPDIR: place },
  });
}

async function endProgram(program: ChildProcess): Promise<void> {
  if (program.exitCode !== null || program.signalCode !== null) return;
  const ended = once(program, 'exit');
  program.kill('SIGKILL');
  await ended;
}

/** Without it the kernel calibrates its clock by a timer that the machine has not. */
async function tscKilohertz(): Promise<number> {
  const megahertz = /^cpu MHz\s*: ([\d.]+)$/m.exec(await readFile('/proc/cpuinfo', 'latin1'))?.[1];
  return Math.round(Number(megahertz) * 1000);
}

async function emulatorWords(place: string, parts: Parts, options: BootOptions): Promise<string[]> {
  const boot = [
    'console=ttyS0 quiet reboot=t panic=-1 pcie_ports=native tsc=reliable',
    `tsc_early_khz=${await tscKilohertz()}`,
    `squash.lowers=${options.lowers.length}`,
    ...options.words,
  ];
  const drives = [
    ...options.lowers.map((file, index) => ({ file, serial: `l${index}`, mode: ',readonly=on' })),
    { file: options.upper, serial: 'upper', mode: '' },
  ];
  const words: readonly (readonly [string, string])[] = [
    ['M', 'microvm,accel=tcg,pcie=on,memory-backend=memory'],
    ['cpu', 'max'],
    ['m', `${memoryMiB}m`],
    ['display', 'none'],
    ['object', `memory-backend-memfd,id=memory,size=${memoryMiB}M,share=on`],
    ['kernel', parts.kernel],
    ['initrd', parts.initrd],
    ['append', boot.join(' ')],
    ...drives.flatMap(({ file, serial, mode }) => [
      ['drive', `id=${serial},file=${file},format=raw,if=none${mode}`] as const,
      ['device', `virtio-blk-device,drive=${serial},serial=${serial}`] as const,
    ]),
    ['netdev', 'user,id=net,restrict=on'],
    ['device', 'virtio-net-device,netdev=net'],
    ['device', 'virtio-rng-device'],
    ['device', 'pcie-root-port,id=rp0,chassis=1,slot=1'],
    ['chardev', `socket,id=vsock,path=${join(place, 'vhost')}`],
    ['device', 'vhost-user-vsock-pci,chardev=vsock,bus=rp0'],
    ['serial', `file:${join(place, 'console')}`],
  ];
  return [
    '-nodefaults',
    '-no-user-config',
    '-no-reboot',
    ...words.flatMap(([name, value]) => [`-${name}`, value]),
  ];
}
