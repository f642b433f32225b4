/** One program that a model wrote, from `execute()` to its result, beside the bare engines behind one pipe and Cloudflare's own executor. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createInterface } from 'node:readline';
import type {
  createExecutor,
  ExecuteResult,
  ExecutorName,
  ExecutorOptions,
} from '../../codemode/src/index.ts';
import { executorOf } from '../../codemode/src/suite/executor-of.ts';
import { buildCodemode } from '../../tools/setup/build-codemode.ts';
import { prepareWorkerd, startWorkerd, type Workerd, type WorkerdPlace } from '../codemode/workerd.ts';
import { timed } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

const one = 'async () => 1 + 1';
const calls =
  'async () => { let sum = 0; for (let i = 0; i < 10; i++) sum += await codemode.add(i, 1); return sum }';
const tools = { add: (a: unknown, b: unknown) => Number(a) + Number(b) };
/** A cold start costs up to a second. */
const coldEvery = 20;
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
  subjects.push(...(await publishedSubjects(join(cacheDir, 'codemode-package'))));
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
      'A program from `execute()` to its result. Warm: an engine waits. Cold: the executor has just been made; as published: the package as npm packs it, not its TypeScript. Bare: the engine’s own package in a child, a fresh realm for each line on a pipe, without kernel, tools, limits or checks. DynamicWorkerExecutor: the executor of @cloudflare/codemode in workerd, each program a Worker of its own; it has no limit on CPU.',
    metrics: [
      { id: 'warm', title: '`1 + 1`, warm', unit: 'ms' },
      { id: 'calls', title: 'ten tool calls one after the other, warm', unit: 'ms' },
      { id: 'cold', title: '`1 + 1`, cold', unit: 'ms' },
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
      every: coldEvery,
      cycle: async () => ({
        burst: await timedBurst(async () => expectResult(await executor.execute(one), 2)),
      }),
    },
    {
      name: `${name}, cold`,
      every: coldEvery,
      cycle: async () => {
        await using fresh = executorOf(name, { ...options, spares: 0 });
        return { cold: await timed(async () => expectResult(await fresh.execute(one), 2)) };
      },
    },
  ];
}

/** The package as users have it: JavaScript, with the memory that QuickJS starts from. And what no cold start can be below. */
async function publishedSubjects(folder: string): Promise<readonly Subject[]> {
  await buildCodemode(folder);
  const built = pathToFileURL(join(folder, 'dist/index.js')).href;
  const published = (await import(built)) as { readonly createExecutor: typeof createExecutor };
  const names = ['quickjs', 'isolated-vm'] as const;
  const floor: Subject = {
    name: 'node -e 0 (the floor)',
    every: coldEvery,
    cycle: async () => ({
      cold: await timed(async () => await once(spawn(process.execPath, ['-e', '0']), 'exit')),
    }),
  };
  const colds = names.map(
    (name): Subject => ({
      name: `${name}, cold, as published`,
      every: coldEvery,
      cycle: async () => {
        await using fresh = published.createExecutor(name, { spares: 0 });
        return { cold: await timed(async () => expectResult(await fresh.execute(one), 2)) };
      },
    }),
  );
  return [floor, ...colds];
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
  let place: WorkerdPlace;
  let workerd: Workerd;
  try {
    await mkdir(folder, { recursive: true });
    place = await prepareWorkerd(cacheDir, folder);
    workerd = stack.use(await startWorkerd(place));
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
      every: coldEvery,
      cycle: async () => ({ burst: await timedBurst(async () => await run(one, 2)) }),
    },
    {
      name: `${name}, cold`,
      every: coldEvery,
      cycle: async () => {
        let fresh: Workerd | undefined;
        const cold = await timed(async () => {
          fresh = await startWorkerd(place);
        });
        await fresh?.[Symbol.asyncDispose]();
        return { cold };
      },
    },
  ];
}
