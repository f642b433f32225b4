/** One program that a model wrote, from `execute()` to its result, beside the bare engines behind one pipe and Cloudflare's own executor. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { ExecuteResult, ExecutorName, ExecutorOptions } from '../../codemode/src/index.ts';
import { executorOf } from '../../codemode/src/suite/executor-of.ts';
import { prepareWorkerd, startWorkerd, type Workerd } from '../codemode/workerd.ts';
import { timed } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

const one = 'async () => 1 + 1';
const calls =
  'async () => { let sum = 0; for (let i = 0; i < 10; i++) sum += await codemode.add(i, 1); return sum }';
const tools = { add: (a: unknown, b: unknown) => Number(a) + Number(b) };
/** Sixteen runs at once take as long as all the others of a round. */
const burstEvery = 20;
/** Enough that all of the machine's processors and all waiting engines are used. */
const runsAtOnce = 16;

export async function codemodeScenario(
  context: Context,
  stack: AsyncDisposableStack,
  cacheDir: string,
): Promise<Scenario> {
  const subjects: Subject[] = [];
  for (const name of ['quickjs', 'isolated-vm', 'deno', 'container', 'vm2'] as const)
    subjects.push(...(await executorSubjects(name, {}, stack)));
  const sandboxes = await squashSubjects(context, async (squash) => {
    const command = ['env', `SQUASH_DATA=${squash.env['SQUASH_DATA']}`, ...squash.cli()] as const;
    return await executorSubjects('sandbox', { squash: [...command] }, stack);
  });
  subjects.push(...sandboxes);
  for (const engine of ['quickjs', 'isolated-vm', 'node-vm']) subjects.push(await bareSubject(engine, stack));
  subjects.push(...(await cloudflareSubjects(join(context.workDir, 'workerd'), stack, cacheDir)));
  return {
    id: 'codemode',
    title: 'Codemode',
    about:
      'A program from `execute()` to its result. Warm: an engine waits. Bare: the engine’s own package in a child, a fresh realm for each line on a pipe, without kernel, tools, limits or checks. DynamicWorkerExecutor: the executor of @cloudflare/codemode in workerd, each program a Worker of its own; it has no limit on CPU.',
    metrics: [
      { id: 'warm', title: '`1 + 1`, warm', unit: 'ms' },
      { id: 'calls', title: 'ten tool calls one after the other, warm', unit: 'ms' },
      { id: 'burst', title: `\`1 + 1\`, ${runsAtOnce} at once, for each`, unit: 'ms' },
    ],
    warmups: 5,
    rounds: rounds(context, 200),
    subjects,
  };
}

async function executorSubjects(
  name: ExecutorName,
  more: ExecutorOptions,
  stack: AsyncDisposableStack,
): Promise<readonly Subject[]> {
  const options = { ...more, spares: 2 };
  const executor = executorOf(name, options);
  stack.use(executor);
  try {
    await executor.init();
  } catch (failure) {
    return [{ name, absent: reasonOf(failure) }];
  }
  // The next engine boots behind a run; what is measured is a run that finds one.
  const warm = async (code: string, expected: number) => {
    await executor.init();
    return await timed(async () => expectResult(await executor.execute(code, tools), expected));
  };
  return [
    { name, cycle: async () => ({ warm: await warm(one, 2), calls: await warm(calls, 55) }) },
    {
      name: `${name}, at once`,
      every: burstEvery,
      cycle: async () => ({
        burst: await timedBurst(async () => expectResult(await executor.execute(one), 2)),
      }),
    },
  ];
}

/** Milliseconds for each of many runs that are asked for at the same time. */
async function timedBurst(run: () => Promise<void>): Promise<number> {
  const ms = await timed(async () => await Promise.all(Array.from({ length: runsAtOnce }, run)));
  return ms / runsAtOnce;
}

function reasonOf(failure: unknown): string {
  return failure instanceof Error ? failure.message : String(failure);
}

/** A run that failed quickly must not look fast. */
function expectResult(given: Partial<Pick<ExecuteResult, 'result' | 'error'>>, expected: number): void {
  if (given.result !== expected)
    throw new Error(`a run gave ${String(given.result)}: ${given.error ?? 'no error'}`);
}

async function bareSubject(engine: string, stack: AsyncDisposableStack): Promise<Subject> {
  const child: ChildProcess = spawn(
    process.execPath,
    ['--no-warnings', join(import.meta.dirname, '../codemode/bare.ts'), engine],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  stack.defer(async () => {
    child.stdin?.end();
    if (child.exitCode === null) await once(child, 'exit');
  });
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  await once(lines, 'line');
  return {
    name: `bare ${engine}`,
    cycle: async () => ({
      warm: await timed(async () => {
        const answer = once(lines, 'line');
        child.stdin?.write('run\n');
        await answer;
      }),
    }),
  };
}

async function cloudflareSubjects(
  folder: string,
  stack: AsyncDisposableStack,
  cacheDir: string,
): Promise<readonly Subject[]> {
  const name = 'DynamicWorkerExecutor';
  let workerd: Workerd;
  try {
    await mkdir(folder, { recursive: true });
    workerd = stack.use(await startWorkerd(await prepareWorkerd(cacheDir, folder)));
  } catch (failure) {
    return [{ name, absent: reasonOf(failure) }];
  }
  const run = async (code: string, expected: number) => expectResult(await workerd.execute(code), expected);
  return [
    {
      name,
      cycle: async () => ({
        warm: await timed(async () => await run(one, 2)),
        calls: await timed(async () => await run(calls, 55)),
      }),
    },
    {
      name: `${name}, at once`,
      every: burstEvery,
      cycle: async () => ({ burst: await timedBurst(async () => await run(one, 2)) }),
    },
  ];
}
