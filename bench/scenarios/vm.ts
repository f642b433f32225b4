/**
 * A microVM: its boot beside QEMU alone, its start from a template beside that, a command beside the least that one can take in that guest,
 * what an idle one takes, and twenty at once.
 */
import { once } from 'node:events';
import { copyFile, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { encodeFields } from '@squash/contract/guest/codec';
import { frameHeaderBytes } from '@squash/contract/guest/frames';
import { SocketDirectory } from '@squash/base/socket-directory';
import { mustRun, timed } from '../measure/process.ts';
import { descendants, totalPssBytes } from '../measure/proc-memory.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { GuestClient } from '../../host/src/guest/client.ts';
import { bareBoot } from '../squash/bare-vm.ts';
import { startSquash, type SquashUnderTest } from '../squash/daemon.ts';
import { plainCommand, ranIn } from '../squash/guest-exec.ts';
import { vmModule } from '../../tests/support/clients-layer.ts';
import type { Context } from './context.ts';

const megabyte = 1e6;
const echoPort = 5_000;
/** Of squash-init. */
const pidOnePort = 1_024;
const answerDeadlineMs = 60_000;
const spawns = 100;
const vm = { backend: 'vm', memory_mb: 256 };
/** One with a volume has no template: it boots. */
const volume = 'bench-vm';

export async function vmScenario(
  context: Context,
  stack: AsyncDisposableStack,
  root: string,
): Promise<Scenario> {
  return {
    id: 'vm',
    title: 'MicroVMs',
    about:
      'Emulated, on one thread each. "boot" is from the request of a create, or the start of the first program, to the first output of `echo`; QEMU alone has the same programs, kernel, initramfs, disks and command line; that of Squash has a volume besides, without which it would not boot. One without goes on from a template, which the second of its kind has made. "exec" is `true` over HTTP keep-alive, and asked of its PID 1 as the daemon asks it; beside both what they can not be without, in the same guest: a byte over vsock and back, and a fork, execve and wait of `true`. "idle" is the PSS of all processes of one VM of 256 MB after its first command. "at once" is from the first request until each of them has answered a command.',
    metrics: [
      { id: 'boot', title: 'create → first output', unit: 'ms' },
      { id: 'exec', title: 'exec `true`', unit: 'ms' },
      { id: 'pss', title: 'one idle VM, all its processes (PSS)', unit: 'MB' },
      { id: 'many', title: 'at once, until all have answered', unit: 'ms' },
    ],
    warmups: 1,
    rounds: context.quick ? 2 : 5,
    secondsMax: 900,
    subjects: await subjects(context, stack, root),
  };
}

async function subjects(
  context: Context,
  stack: AsyncDisposableStack,
  root: string,
): Promise<readonly Subject[]> {
  if ('absent' in context.squash) return [context.squash];
  const { workDir, quick } = context;
  const dataDir = join(workDir, 'vm-data');
  const squash = await startSquash({ root, dataDir, rootfs: join(workDir, 'rootfs') }, stack);
  await copyFile(await vmModule(), join(dataDir, 'modules/900-vmm.squashfs'));
  await squash.client.send('POST', '/v1/volumes', { name: volume });
  const guest = squash.nextId();
  await squash.client.create(guest, squash.layers, vm);
  stack.defer(async () => await squash.client.destroy(guest));
  const floor = await Floor.start(squash, { guest, workDir, root });
  stack.defer(() => floor[Symbol.dispose]());
  const many = quick ? 4 : 20;
  return [
    {
      name: 'Squash, microVM',
      cycle: async () => {
        const exec = await each(quick ? 20 : 100, () => timed(() => squash.client.run(guest, ['/bin/true'])));
        return { exec, boot: await booted(squash) };
      },
    },
    { name: 'Squash, microVM from a template', cycle: async () => await copied(squash) },
    {
      name: 'QEMU alone',
      cycle: async () => ({ boot: await bareBoot(dataDir, workDir) }),
    },
    {
      name: 'its PID 1, without the API',
      cycle: async () => ({ exec: await floor.execs(quick ? 20 : 100) }),
    },
    {
      name: 'vsock echo, and fork and exec, in the guest',
      cycle: async () => ({ exec: await floor.samples(quick ? 20 : 100) }),
    },
    { name: `Squash, ${many} microVMs`, every: 5, cycle: async () => ({ many: await atOnce(squash, many) }) },
  ];
}

async function booted({ client, layers }: SquashUnderTest): Promise<number> {
  const mounts = [{ volume, path: '/mnt' }];
  let id: string | undefined;
  try {
    return await timed(async () => {
      const made = await client.send('POST', '/v1/sandboxes', { ...vm, from: { layers }, mounts });
      if (made.status !== 201) throw new Error(made.body);
      ({ id } = JSON.parse(made.body) as { readonly id: string });
      await client.exec(id, 'echo first');
    });
  } finally {
    if (id !== undefined) await client.destroy(id).catch(() => undefined);
  }
}

async function copied(squash: SquashUnderTest): Promise<{ readonly boot: number; readonly pss: number }> {
  const before = new Set(await descendants(squash.launcherPid));
  const id = squash.nextId();
  try {
    const boot = await timed(async () => {
      await squash.client.create(id, squash.layers, vm);
      await squash.client.exec(id, 'echo first');
    });
    const own = (await descendants(squash.launcherPid)).filter((pid) => !before.has(pid));
    return { boot, pss: (await totalPssBytes(own)) / megabyte };
  } finally {
    await squash.client.destroy(id).catch(() => undefined);
  }
}

async function atOnce(squash: SquashUnderTest, count: number): Promise<number> {
  const ids = Array.from({ length: count }, () => squash.nextId());
  try {
    return await timed(() =>
      Promise.all(
        ids.map(async (id) => {
          await squash.client.create(id, squash.layers, { ...vm, memory_mb: 128 });
          await squash.client.exec(id, 'echo answers');
        }),
      ),
    );
  } finally {
    for (const id of ids) await squash.client.destroy(id).catch(() => undefined);
  }
}

async function each(count: number, step: () => Promise<number>): Promise<readonly number[]> {
  const took: number[] = [];
  for (let done = 0; done < count; done += 1) took.push(await step());
  return took;
}

/** In a guest of Squash, reached through its squash-vmm as its PID 1 is. */
class Floor implements Disposable {
  readonly #squash: SquashUnderTest;
  readonly #guest: string;
  readonly #echo: Duplex;
  readonly #pidOne: GuestClient;
  #execs = 0;

  private constructor(
    squash: SquashUnderTest,
    guest: string,
    { echo, pidOne }: { readonly echo: Duplex; readonly pidOne: GuestClient },
  ) {
    this.#squash = squash;
    this.#guest = guest;
    this.#echo = echo;
    this.#pidOne = pidOne;
  }

  static async start(
    squash: SquashUnderTest,
    { guest, workDir, root }: { readonly guest: string; readonly workDir: string; readonly root: string },
  ): Promise<Floor> {
    const program = join(workDir, 'vsock-echo');
    await mustRun([
      'gcc',
      '-D_GNU_SOURCE',
      '-static',
      '-O1',
      '-o',
      program,
      join(root, 'bench/squash/vsock-echo.c'),
    ]);
    const url = `http://127.0.0.1:${squash.env['SQUASH_PORT']}/v1/sandboxes/${guest}/files?path=/vsock-echo&mode=0755`;
    const answer = await fetch(url, { method: 'PUT', body: new Uint8Array(await readFile(program)) });
    if (!answer.ok) throw new Error(await answer.text());
    await squash.client.exec(guest, `/vsock-echo serve ${echoPort} >/dev/null 2>&1 &`);
    const runDir = join(squash.env['SQUASH_DATA'] ?? '', 'run');
    const [name] = (await readdir(join(runDir, 'g'))).filter((each) => each.endsWith('.sock'));
    const through = async (port: number): Promise<Duplex> => {
      using sockets = new SocketDirectory(runDir);
      const stream = await sockets.connect(`g/${name}`);
      stream.write(encodeFields('vmmGuest', [['port', port]]));
      await take(stream, frameHeaderBytes);
      return stream;
    };
    const pidOne = new GuestClient({ connect: async () => await through(pidOnePort), answerDeadlineMs });
    return new Floor(squash, guest, { echo: await through(echoPort), pidOne });
  }

  /** `true`, asked as the daemon asks for it. */
  async execs(count: number): Promise<readonly number[]> {
    return await each(count, async () => {
      const command = plainCommand(`bench-${(this.#execs += 1)}`, '/bin/true');
      return await timed(async () => await ranIn(this.#pidOne, command));
    });
  }

  /** A round over vsock each, and the median of a fork and exec there. */
  async samples(count: number): Promise<readonly number[]> {
    const forkMs = Number(await this.#squash.client.exec(this.#guest, `/vsock-echo spawn ${spawns}`));
    return await each(count, async () => {
      const round = await timed(async () => {
        this.#echo.write('x');
        await take(this.#echo, 1);
      });
      return round + forkMs;
    });
  }

  [Symbol.dispose](): void {
    this.#echo.destroy();
  }
}

async function take(stream: Duplex, bytes: number): Promise<void> {
  while (stream.read(bytes) === null) {
    if (stream.readableEnded || stream.destroyed) throw new Error('the guest closed the connection');
    await once(stream, 'readable');
  }
}
