/** Connections that nobody reads: how long one takes, how fast bytes pass, names, and a thousand at once. */
import { errorText } from '@squash/base/bug';
import { mustRun } from '../measure/process.ts';
import { totalPssBytes } from '../measure/proc-memory.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import {
  box,
  inPlace,
  inTurn,
  loadPort,
  type NetworkPlace,
  type PeerNetwork,
  openPasta,
  openSlirp,
  serverAddress,
} from '../network/place.ts';
import { processesOf } from '../../tests/support/leaks.ts';
import { waitFor } from '../../tests/support/wait.ts';
import { type Context, rounds } from './context.ts';

const transferBytes = 134_217_728;
const many = 1_000;
const questions = 500;
/** What is asked of a server on one connection, with how often. */
const loads = { connect: 20, again: 100, rate: 50, transfer: transferBytes } as const;
const loadNames = Object.keys(loads) as (keyof typeof loads)[];

export async function tunnelScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  return {
    id: 'tunnel',
    title: 'Network, tunnelled',
    about: `From a program to a server on the same machine. "connect" is a new connection up to its first byte, "again" eight bytes there and one back on an open one, "rate" the same on 32 connections at once, "transfer" ${transferBytes / 1_048_576} MB on one connection, "name" one DNS question, "answers" ${questions} questions with 32 on their way (a sandbox may ask 2,000 a second for long), "many" ${many} connections opened and used at once, "memory" what relay and egress process hold for these.`,
    metrics: [
      { id: 'connect', title: 'new connection', unit: 'ms' },
      { id: 'again', title: 'request on an open connection', unit: 'ms' },
      { id: 'rate', title: 'requests', unit: '/s' },
      { id: 'transfer', title: 'transfer', unit: 'ms' },
      { id: 'name', title: 'name', unit: 'ms' },
      { id: 'answers', title: 'DNS answers', unit: '/s' },
      { id: 'many', title: `${many} connections`, unit: 'ms' },
      { id: 'memory', title: `memory of ${many} connections`, unit: 'MB' },
    ],
    warmups: 1,
    rounds: rounds(context, 16),
    subjects: await inPlace(stack, async (place) => await subjects(place, stack)),
  };
}

async function subjects(place: NetworkPlace, stack: AsyncDisposableStack): Promise<readonly Subject[]> {
  const { world } = place;
  const behind = async (name: string, open: () => Promise<PeerNetwork>): Promise<Subject> => {
    try {
      const network = await open();
      return {
        name,
        cycle: async () => await inTurn(network, async (pid) => await outside(place, pid)),
      };
    } catch (error) {
      return { name, absent: errorText(error) };
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
  const sample: Record<string, number[]> = {};
  for (const what of loadNames) {
    sample[what] = numbers(await place.loadInside(`${what} ${to} ${loads[what]}`));
  }
  const about = '198.18.0.1 tunnel.allowed.test';
  return {
    ...sample,
    name: numbers(await place.loadInside(`names ${about} 50`)),
    answers: numbers(await place.loadInside(`answers ${about} ${questions}`)),
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
  const to = [serverAddress, String(loadPort)] as const;
  const sample: Record<string, number[]> = {};
  for (const what of loadNames) sample[what] = await load(place, pid, [what, ...to, String(loads[what])]);
  return { ...sample, many: await load(place, pid, ['many', ...to, String(many)]) };
}

async function names(place: NetworkPlace): Promise<Sample> {
  const about = ['5.5.5.53', 'tunnel.allowed.test'] as const;
  const { pid } = place.world;
  return {
    name: await load(place, pid, ['names', ...about, '50']),
    answers: await load(place, pid, ['answers', ...about, String(questions)]),
  };
}

async function load(place: NetworkPlace, pid: number, words: readonly string[]): Promise<number[]> {
  return numbers(await mustRun(place.load(pid, words)));
}

function numbers(text: string): number[] {
  return text.trim().split('\n').map(Number);
}
