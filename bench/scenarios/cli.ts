/** What a call of the command line costs beside Node's own start, which no program written for Node gets below. */
import { timeToExit } from '../measure/process.ts';
import type { Scenario } from '../measure/scenario.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

export async function cliScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  return {
    id: 'cli',
    title: 'Command line',
    about:
      'One call of `./squash`, from spawn to exit, the starter and the daemon’s answer included; `completion` asks no daemon.',
    metrics: [{ id: 'call', title: 'one call', unit: 'ms' }],
    warmups: 2,
    rounds: rounds(context, 50),
    subjects: [
      {
        name: 'node -e 0 (the floor)',
        cycle: async () => ({ call: await timeToExit([process.execPath, '-e', '0']) }),
      },
      ...(await squashSubjects(context, async (squash) => {
        const id = await squash.createOnStack(stack);
        const calls = [['completion', 'bash'], ['version'], ['ls'], ['exec', id, '--', 'true']];
        return calls.map((words) => ({
          name: `Squash, ${words[0]}`,
          cycle: async () => ({ call: await timeToExit(squash.cli(...words), squash.env) }),
        }));
      })),
    ],
  };
}
