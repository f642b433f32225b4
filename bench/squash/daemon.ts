/**
 * A Squash of the benchmark's own: `./squash serve` on a fresh data directory, with two small layers in it.
 *
 * It is started as any user starts it, on a free loopback port, and ended with everything it left running:
 * the daemon leaves its sandboxes and its launcher alive by design, so disposing destroys the sandboxes first.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lastLine, mustRun, run } from '../measure/process.ts';
import { SquashClient } from './client.ts';

const startMsMax = 30_000;
const stopMsMax = 20_000;
/** Two layers, as the budgets say: the busybox root, and something above it to stack. */
const layers = ['000-base-bench', '100-extra-bench'] as const;
/** Above the 500 sandboxes of the memory scenario. */
const sandboxesMax = 600;

/** The largest upper that is snapshotted has 500 MB. */
const upperMbMax = 768;

export interface SquashUnderTest {
  readonly client: SquashClient;
  readonly layers: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** Where the daemon asks a registry over plain HTTP; a scenario may start one there. */
  readonly registryPort: number;
  readonly daemonPid: number;
  /** The resident launcher: every sandbox's PID 1 is its child. */
  readonly launcherPid: number;
  nextId(): string;
  createOnStack(stack: AsyncDisposableStack): Promise<string>;
  cli(...args: readonly string[]): readonly string[];
}

export interface DaemonPlace {
  /** The project's folder, with `squash` in it. */
  readonly root: string;
  readonly dataDir: string;
  readonly rootfs: string;
  /** Of its environment. */
  readonly more?: Readonly<Record<string, string>>;
}

export async function startSquash(place: DaemonPlace, stack: AsyncDisposableStack): Promise<SquashUnderTest> {
  await packLayers(place);
  const port = await freePort();
  const registryPort = await freePort();
  const env: NodeJS.ProcessEnv = {
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    SQUASH_DATA: place.dataDir,
    // As the bare QEMU that VMs are compared with.
    SQUASH_VM_ACCEL: 'tcg',
    SQUASH_PORT: String(port),
    SQUASH_MAX_SANDBOXES: String(sandboxesMax),
    SQUASH_UPPER_LIMIT_MB: String(upperMbMax),
    SQUASH_INSECURE_REGISTRIES: `localhost:${registryPort}`,
    // For comparing the kinds of upper; without it the daemon chooses as it does for any user.
    ...(process.env['SQUASH_UPPER'] === undefined ? {} : { SQUASH_UPPER: process.env['SQUASH_UPPER'] }),
    ...place.more,
  };
  const client = new SquashClient(port);
  stack.defer(() => client[Symbol.dispose]());
  const squash = join(place.root, 'squash');
  const daemon = spawn(squash, ['serve'], { env, cwd: place.root, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  daemon.stdout.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-8192)));
  daemon.stderr.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-8192)));
  stack.defer(async () => await stopSquash(daemon, squash, env));
  await untilHealthy(client, daemon, () => said);
  let number = 0;
  const nextId = (): string => `bench-${++number}`;
  return {
    client,
    layers,
    env,
    registryPort,
    daemonPid: await keptBy(daemon.pid ?? 0),
    launcherPid: await launcherOf(place.dataDir),
    nextId,
    createOnStack: async (onto) => {
      const id = nextId();
      await client.create(id, layers);
      onto.defer(async () => await client.destroy(id));
      return id;
    },
    cli: (...args) => [squash, ...args],
  };
}

async function packLayers({ dataDir, rootfs }: DaemonPlace): Promise<void> {
  const modules = join(dataDir, 'modules');
  const extra = `${dataDir}-extra`;
  await mkdir(modules, { recursive: true });
  await mkdir(join(extra, 'opt'), { recursive: true });
  await writeFile(join(extra, 'opt/extra'), 'second layer\n');
  for (const [tree, name] of [
    [rootfs, layers[0]],
    [extra, layers[1]],
  ] as const) {
    const flags = ['-noappend', '-quiet', '-no-progress', '-comp', 'zstd', '-all-root'];
    await mustRun(['mksquashfs', tree, join(modules, `${name}.squashfs`), ...flags]);
  }
  await rm(extra, { recursive: true });
}

async function untilHealthy(client: SquashClient, daemon: ChildProcess, said: () => string): Promise<void> {
  const deadline = performance.now() + startMsMax;
  for (;;) {
    if (daemon.exitCode !== null || daemon.signalCode !== null) {
      throw new Error(`squash serve ended with ${daemon.exitCode ?? daemon.signalCode}: ${lastLine(said())}`);
    }
    const answer = await client.send('GET', '/cgi-bin/health').catch(() => undefined); // Not listening yet.
    if (answer?.status === 200) return;
    if (performance.now() > deadline) throw new Error(`squash serve is not healthy after ${startMsMax} ms`);
    await sleep(50);
  }
}

/** `stop --all` ends the daemon and the launcher, which lives on without a daemon on purpose. */
async function stopSquash(daemon: ChildProcess, squash: string, env: NodeJS.ProcessEnv): Promise<void> {
  const ended = daemon.exitCode !== null || daemon.signalCode !== null ? undefined : once(daemon, 'close');
  const stopped = await run([squash, 'stop', '--all'], { env });
  if (stopped.code !== 0) process.stderr.write(`bench: squash stop: ${lastLine(stopped.stderr)}\n`);
  if (ended === undefined) return;
  // One that never came to listen is not known to `stop`.
  const killer = setTimeout(() => daemon.kill('SIGKILL'), stopped.code === 0 ? stopMsMax : 0);
  await ended;
  clearTimeout(killer);
}

/** The launcher says in its title whose it is; behind the title there may be remains of longer words. */
/** The daemon is the child of what `squash serve` became. */
async function keptBy(keeper: number): Promise<number> {
  const [child = ''] = (await readFile(`/proc/${keeper}/task/${keeper}/children`, 'utf8')).split(' ');
  return Number(child);
}

async function launcherOf(dataDir: string): Promise<number> {
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const title = await readFile(`/proc/${entry}/cmdline`, 'utf8').catch(() => ''); // It has ended.
    if (title.replaceAll('\0', ' ').startsWith(`squash-launch resident ${dataDir} `)) return Number(entry);
  }
  throw new Error('no squash-launch serves this data directory');
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
