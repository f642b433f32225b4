/** Connections that nobody reads: how long one takes, how fast bytes pass, names, and a thousand at once. */
import { mustRun } from '../measure/process.ts';
import { totalPssBytes } from '../measure/proc-memory.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import {
  box,
  loadPort,
  type NetworkPlace,
  openPasta,
  openPlace,
  openSlirp,
  serverAddress,
} from '../network/place.ts';
import { processesOf } from '../../tests/support/leaks.ts';
import { waitFor } from '../../tests/support/wait.ts';
import { type Context, rounds } from './context.ts';

const transferBytes = 134_217_728;
const many = 1_000;

export async function tunnelScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  return {
    id: 'tunnel',
    title: 'Network, tunnelled',
    about: `From a program to a server on the same machine. "connect" is a new connection up to its first byte, "transfer" ${transferBytes / 1_048_576} MB on one connection, "name" one DNS question, "many" ${many} connections opened and used at once, "memory" what relay and egress process hold for these.`,
    metrics: [
      { id: 'connect', title: 'new connection', unit: 'ms' },
      { id: 'transfer', title: 'transfer', unit: 'ms' },
      { id: 'name', title: 'name', unit: 'ms' },
      { id: 'many', title: `${many} connections`, unit: 'ms' },
      { id: 'memory', title: `memory of ${many} connections`, unit: 'MB' },
    ],
    warmups: 1,
    rounds: rounds(context, 20),
    subjects: await subjects(stack),
  };
}

async function subjects(stack: AsyncDisposableStack): Promise<readonly Subject[]> {
  let place: NetworkPlace;
  try {
    place = await openPlace(stack);
  } catch (error) {
    return [{ name: 'Squash', absent: reason(error) }];
  }
  const { world } = place;
  const behind = async (name: string, open: () => Promise<number>): Promise<Subject> => {
    try {
      const pid = await open();
      return { name, cycle: async () => await outside(place, pid) };
    } catch (error) {
      return { name, absent: reason(error) };
    }
  };
  return [
    { name: 'Squash', cycle: async () => await inside(place) },
    {
      name: 'direct',
      cycle: async () => ({ ...(await outside(place, world.pid)), ...(await names(place)) }),
    },
    await behind('slirp4netns', async () => await openSlirp(world, stack)),
    await behind('pasta', async () => await openPasta(world, stack)),
  ];
}

async function inside(place: NetworkPlace): Promise<Sample> {
  const to = `tunnel.allowed.test ${loadPort}`;
  return {
    connect: numbers(await place.loadInside(`connect ${to} 20`)),
    transfer: numbers(await place.loadInside(`transfer ${to} ${transferBytes}`)),
    name: numbers(await place.loadInside('names 198.18.0.1 tunnel.allowed.test 50')),
    ...(await hold(place, to)),
  };
}

/** The processes that carry connections grow while a thousand are open. */
async function hold({ world }: NetworkPlace, to: string): Promise<Sample> {
  const held = async (): Promise<number> => {
    const carriers = processesOf(world.daemon.dataDir).filter(({ command }) => carrying.test(command));
    return await totalPssBytes(carriers.map(({ pid }) => pid));
  };
  const before = await held();
  await world.output(box, 'rm -f /tmp/hold /tmp/many; mkfifo /tmp/hold');
  // Whoever has the other end of the pipe open holds the connections.
  const holder = await world.start(box, 'exec 9<> /tmp/hold; sleep 120');
  await world.start(box, `/tmp/load many ${to} ${many} < /tmp/hold > /tmp/many`);
  const taken = await waitFor('the connections to be open', async () => {
    const { stdout } = await world.exec(box, 'cat /tmp/many');
    return stdout.endsWith('\n') && stdout;
  });
  const during = await held();
  await world.daemon.call('DELETE', holder);
  return { many: numbers(taken), memory: Math.max(0, during - before) / 1e6 };
}

const carrying = /squash-relay|squash-launch|egress\/src\/main/;

async function outside(place: NetworkPlace, pid: number): Promise<Sample> {
  const load = async (...words: string[]): Promise<number[]> =>
    numbers(await mustRun(place.load(pid, words)));
  const to = [serverAddress, String(loadPort)] as const;
  return {
    connect: await load('connect', ...to, '20'),
    transfer: await load('transfer', ...to, String(transferBytes)),
    many: await load('many', ...to, String(many)),
  };
}

async function names(place: NetworkPlace): Promise<Sample> {
  const words = ['names', '5.5.5.53', 'tunnel.allowed.test', '50'];
  return { name: numbers(await mustRun(place.load(place.world.pid, words))) };
}

function numbers(text: string): number[] {
  return text.trim().split('\n').map(Number);
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
