/** `true` in one sandbox, while another floods the network: what is everybody's must not become one sandbox's. */
import { timed } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { box, bringLoad, inPlace, type NetworkPlace } from '../network/place.ts';
import { waitFor } from '../../tests/support/wait.ts';
import { type Context, rounds } from './context.ts';

const execs = 20;
const flooder = 'flooder';

const floods: Readonly<Record<string, string>> = {
  names: 'while :; do /tmp/load names 198.18.0.1 a.allowed.test 100000 > /dev/null; done',
  connections: 'while :; do /tmp/load connect tunnel.allowed.test 7790 1000 > /dev/null; done',
  bytes: 'while :; do /tmp/load transfer tunnel.allowed.test 7790 100000000000 > /dev/null; done',
};

export async function floodScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  return {
    id: 'flood',
    title: 'Exec beside a flood',
    about:
      'The command `true` in one sandbox, alone and while another, with half a processor, asks for names, connects, or moves bytes as fast as it can.',
    metrics: [{ id: 'exec', title: 'exec `true`', unit: 'ms' }],
    warmups: 1,
    // The slowest in twenty are few: with 20 rounds one build gave 1.6 to 2.4.
    rounds: rounds(context, 40),
    subjects: await inPlace(stack, subjects),
  };
}

async function subjects({ world }: NetworkPlace): Promise<readonly Subject[]> {
  await world.create(flooder, { allow_net: ['*.allowed.test'], cpu: 0.5 });
  await bringLoad(world, flooder);
  const measure = async (): Promise<{ exec: number[] }> => {
    const exec: number[] = [];
    for (let at = 0; at < execs; at++) exec.push(await timed(async () => await world.exec(box, 'true')));
    return { exec };
  };
  return [
    { name: 'alone', cycle: measure },
    ...Object.entries(floods).map(
      ([what, script]): Subject => ({
        name: `beside a flood of ${what}`,
        cycle: async () => {
          const job = await world.start(flooder, script);
          await waitFor(
            'the flood to run',
            async () => (await world.daemon.call('GET', job)).status === 'running',
          );
          try {
            return await measure();
          } finally {
            await world.daemon.call('DELETE', job);
          }
        },
      }),
    ),
  ];
}
