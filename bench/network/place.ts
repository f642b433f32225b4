/**
 * Where the network is measured: a Squash beside the tests' little Internet in a network namespace of its own, a server
 * there that does nothing but answer, and the same load started in it, in a sandbox, or behind a peer's network.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { errorText } from '@squash/base/bug';
import { places } from '../../tests/egress/world/places.ts';
import { needsRoot, World } from '../../tests/egress/world/world.ts';
import { mustRun } from '../measure/process.ts';
import type { Subject } from '../measure/scenario.ts';

export const loadPort = 7790;
export const box = 'bench';

export interface NetworkPlace {
  readonly world: World;
  /** argv of the load tool in the namespaces of a process. */
  load(pid: number, words: readonly string[]): readonly string[];
  /** Runs the load tool in the sandbox; its output. */
  loadInside(words: string): Promise<string>;
}

/** The subjects that `build` makes of a place, or one row that says why there is none. */
export async function inPlace(
  stack: AsyncDisposableStack,
  build: (place: NetworkPlace) => Promise<readonly Subject[]>,
): Promise<readonly Subject[]> {
  let place: NetworkPlace;
  try {
    place = await openPlace(stack);
  } catch (error) {
    return [{ name: 'Squash', absent: errorText(error) }];
  }
  return await build(place);
}

/** @throws where the host does not let us make a network namespace */
async function openPlace(stack: AsyncDisposableStack): Promise<NetworkPlace> {
  if (needsRoot !== false) throw new Error(needsRoot);
  const world = stack.use(
    await World.start({
      secrets: {
        KEY: {
          placeholder: 'squash-bench-placeholder',
          value: 'real-bench-value-0123456789',
          allowed_hosts: ['secret.allowed.test'],
        },
      },
    }),
  );
  const program = join(world.directory, 'load-musl');
  const load = (pid: number, words: readonly string[]): readonly string[] => [
    'nsenter',
    `--target=${pid}`,
    '--net',
    '--',
    program,
    ...words,
  ];
  const server = await startSpeaking(load(world.pid, ['serve', String(loadPort)]));
  stack.defer(async () => await endOf(server));
  await world.create(box, { allow_net: ['*.allowed.test'] });
  await bringLoad(world, box);
  return {
    world,
    load,
    loadInside: async (words) => await world.output(box, `/tmp/load ${words}`, 120),
  };
}

/** The load tool as a sandbox's `/tmp/load`. */
export async function bringLoad(world: World, sandbox: string): Promise<void> {
  await world.output(sandbox, 'cp /opt/tools/load-musl /tmp/load && chmod +x /tmp/load');
}

/**
 * A peer's network: a process in its namespace, and the one that brings bytes out of it. That one stands still but in
 * its own turns: pasta goes on turning for many seconds after a thousand connections, and takes a processor from others.
 */
export interface PeerNetwork {
  readonly pid: number;
  readonly carrier: ChildProcess;
}

/** Runs one turn of a peer. */
export async function inTurn<T>(
  { pid, carrier }: PeerNetwork,
  turn: (pid: number) => Promise<T>,
): Promise<T> {
  carrier.kill('SIGCONT');
  try {
    return await turn(pid);
  } finally {
    carrier.kill('SIGSTOP');
  }
}

export async function openSlirp(world: World, stack: AsyncDisposableStack): Promise<PeerNetwork> {
  const holder = await startSpeaking([
    'nsenter',
    `--target=${world.pid}`,
    '--net',
    '--mount',
    '--',
    'unshare',
    '--net',
    '--',
    'sh',
    '-c',
    'ip link set lo up; echo ready; exec sleep infinity',
  ]);
  stack.defer(async () => await endOf(holder));
  const pid = holder.pid ?? 0;
  const words = ['--configure', '--mtu=65520', '--ready-fd=1', String(pid), 'tap0'];
  const slirp = await startSpeaking([
    'nsenter',
    `--target=${world.pid}`,
    '--net',
    '--',
    'slirp4netns',
    ...words,
  ]);
  stack.defer(async () => await endOf(slirp));
  slirp.kill('SIGSTOP');
  return { pid, carrier: slirp };
}

/** pasta copies a device of the host: the world gets one that leads nowhere else. */
export async function openPasta(world: World, stack: AsyncDisposableStack): Promise<PeerNetwork> {
  const inWorld = ['nsenter', `--target=${world.pid}`, '--net', '--'];
  for (const words of [
    'tuntap add dev bench0 mode tap',
    'address add 5.9.9.2/24 dev bench0',
    'link set bench0 up',
    'route add default via 5.9.9.1',
  ]) {
    await mustRun([...inWorld, 'ip', ...words.split(' ')]);
  }
  const command = ['--config-net', '--quiet', '--', 'sh', '-c', 'echo ready; exec sleep infinity'];
  const pasta = await startSpeaking([...inWorld, 'pasta', '--foreground', '--runas', '0', ...command]);
  // After its command, which is ended below: then it ends by itself.
  stack.defer(async () => await endOf(pasta));
  const children = await mustRun(['pgrep', '-P', String(pasta.pid)]);
  const pid = Number(children.trim().split('\n')[0]);
  // pasta ends with its command; the command would outlive it, and hold its output open.
  stack.defer(() => void process.kill(pid, 'SIGKILL'));
  pasta.kill('SIGSTOP');
  return { pid, carrier: pasta };
}

/** A program in the world's namespaces, until the stack is closed. */
export async function startInPlace(
  world: World,
  argv: readonly string[],
  stack: AsyncDisposableStack,
): Promise<void> {
  const child = await startSpeaking(['nsenter', `--target=${world.pid}`, '--net', '--mount', '--', ...argv]);
  stack.defer(async () => await endOf(child));
}

export const serverAddress = places.front;

/** Resolves when it has said something. @throws with what it said to stderr when it ends first */
async function startSpeaking([program = '', ...words]: readonly string[]): Promise<ChildProcess> {
  const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = once(child, 'exit').then(() => {
    throw new Error(`${words.join(' ')} ended: ${said}`);
  });
  // It also ends when it is told to, later.
  ended.catch(() => undefined);
  await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'error').then(([error]) => Promise.reject(error)),
    ended,
  ]);
  child.stdout.resume();
  return child;
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
  // Whoever it started may hold these open.
  child.stdout?.destroy();
  child.stderr?.destroy();
}
