/** A hundred cells of Python in a context, by each way to it, beside what runs them with nothing in between. */
import { type Sandbox, Squash } from '@squash/sdk';
import { timed } from '../measure/process.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import { BareCells, makeInterpreter } from '../squash/interpreter.ts';
import type { SquashUnderTest } from '../squash/daemon.ts';
import { PythonExec } from '../squash/python.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

const cells = 100;
/** It needs what an earlier one has left, and shows a value. */
const code = 'n += 1\nn';

export async function cellsScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  return {
    id: 'cells',
    title: 'Cells',
    about:
      'The cell `n += 1; n`, a hundred one after the other, each from its request to its result. Bare: in the same sandbox, IPython\'s `run_cell` in one process, and Debian\'s `jupyter_client` with the kernel that a context has, over the same kind of socket. "and two execs" adds to each cell the time of two execs of `true` over `/v1` right behind: the budget.',
    metrics: [
      { id: 'cell', title: 'one cell', unit: 'ms' },
      { id: 'hundred', title: 'a hundred cells', unit: 'ms' },
    ],
    warmups: 1,
    rounds: rounds(context, 20),
    subjects: await squashSubjects(context, async (squash) => await subjectsOf(squash, stack)),
  };
}

async function subjectsOf(squash: SquashUnderTest, stack: AsyncDisposableStack): Promise<readonly Subject[]> {
  const port = squash.env['SQUASH_PORT'] ?? '';
  let box: Sandbox;
  try {
    box = await makeInterpreter(new Squash({ url: `http://127.0.0.1:${port}` }));
  } catch (error) {
    return [{ name: 'Squash, contexts', absent: error instanceof Error ? error.message : String(error) }];
  }
  stack.defer(async () => await box.remove());
  (await box.runCode('n = 0')).check();
  const bare = await BareCells.start(box, code);
  const python = stack.use(new PythonExec(port, box.id, code));
  const { client } = squash;
  const twoExecs = async (): Promise<void> => {
    await client.run(box.id, ['true']);
    await client.run(box.id, ['true']);
  };
  return [
    subject('Squash, HTTP keep-alive', () => each(() => timed(() => client.cell(box.id, code)))),
    subject('Squash, TypeScript SDK', () => each(() => timed(async () => (await box.runCode(code)).check()))),
    subject('Squash, Python SDK', () => each(() => python.exec('cell'))),
    subject('Squash, Python SDK, async', () => each(() => python.exec('async cell'))),
    subject('IPython inside (bare)', async () => await bare.hundred('ipython')),
    subject('jupyter_client inside', async () => await bare.hundred('jupyter_client')),
    subject('jupyter_client inside, and two execs', async () => {
      const alone = await bare.hundred('jupyter_client');
      const execs = await each(() => timed(twoExecs));
      return alone.map((ms, index) => ms + (execs[index] ?? 0));
    }),
  ];
}

function subject(name: string, hundred: () => Promise<readonly number[]>): Subject {
  return {
    name,
    cycle: async (): Promise<Sample> => {
      const cell = await hundred();
      return { cell, hundred: cell.reduce((sum, ms) => sum + ms, 0) };
    },
  };
}

async function each(step: () => Promise<number>): Promise<readonly number[]> {
  const took: number[] = [];
  for (let count = 0; count < cells; count += 1) took.push(await step());
  return took;
}
