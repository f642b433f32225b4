/** One program that a model wrote, from `execute()` to its result, beside the bare engines behind one pipe. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { createExecutor, type ExecuteResult, type ExecutorName } from '../../codemode/src/index.ts';
import { timed } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { type Context, rounds } from './context.ts';

const calls = 'let sum = 0; for (let i = 0; i < 10; i++) sum += await codemode.add(i, 1); return sum';
const tools = { add: (a: unknown, b: unknown) => Number(a) + Number(b) };
const executors: readonly ExecutorName[] = ['quickjs', 'isolated-vm', 'deno', 'container', 'vm2'];
/** A cold start costs up to a second. */
const coldEvery = 20;

export async function codemodeScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  const subjects: Subject[] = [];
  for (const name of executors) subjects.push(...(await executorSubjects(name, stack)));
  for (const engine of ['quickjs', 'isolated-vm', 'node-vm']) subjects.push(await bareSubject(engine, stack));
  return {
    id: 'codemode',
    title: 'Codemode',
    about:
      'A program from `execute()` to its result. Warm: an engine waits. Cold: the executor has just been made. Bare: the engine’s own package in a child, a fresh realm for each line on a pipe, without kernel, tools, limits or checks.',
    metrics: [
      { id: 'warm', title: '`return 1 + 1`, warm', unit: 'ms' },
      { id: 'calls', title: 'ten tool calls one after the other, warm', unit: 'ms' },
      { id: 'cold', title: '`return 1 + 1`, cold', unit: 'ms' },
    ],
    warmups: 5,
    rounds: rounds(context, 200),
    subjects,
  };
}

async function executorSubjects(
  name: ExecutorName,
  stack: AsyncDisposableStack,
): Promise<readonly Subject[]> {
  const options = { spares: 2, allowWeakIsolation: true };
  const executor = createExecutor(name, options);
  stack.use(executor);
  try {
    await executor.init();
  } catch (failure) {
    return [{ name, absent: failure instanceof Error ? failure.message : String(failure) }];
  }
  return [
    {
      name,
      cycle: async () => {
        // The next engine boots behind a run; what is measured is a run that finds one.
        await executor.init();
        const warm = await timed(async () => expectResult(await executor.execute('return 1 + 1'), 2));
        await executor.init();
        return {
          warm,
          calls: await timed(async () => expectResult(await executor.execute(calls, tools), 55)),
        };
      },
    },
    {
      name: `${name}, cold`,
      every: coldEvery,
      cycle: async () => {
        await using fresh = createExecutor(name, { ...options, spares: 0 });
        return { cold: await timed(async () => expectResult(await fresh.execute('return 1 + 1'), 2)) };
      },
    },
  ];
}

/** A run that failed quickly must not look fast. */
function expectResult(given: ExecuteResult, expected: number): void {
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
