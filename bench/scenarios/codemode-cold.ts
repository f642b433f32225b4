/** The first program of an executor that has just been made: no other one waits or starts meanwhile. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { createExecutor, ExecutorName, ExecutorOptions } from '../../codemode/src/index.ts';
import { executorOf } from '../../codemode/src/suite/executor-of.ts';
import { buildCodemode } from '../../tools/setup/build-codemode.ts';
import { prepareWorkerd, startWorkerd, type Workerd, type WorkerdPlace } from '../codemode/workerd.ts';
import { timed } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

export async function codemodeColdScenario(context: Context, cacheDir: string): Promise<Scenario> {
  return {
    id: 'codemode-cold',
    title: 'Codemode, cold',
    about:
      'From `execute()` of an executor that has just been made to its first result; before each sample the one before it is gone with all its processes. As published: the package as npm packs it, not its TypeScript. DynamicWorkerExecutor: a start of workerd.',
    metrics: [{ id: 'cold', title: '`1 + 1`, cold', unit: 'ms' }],
    warmups: 1,
    rounds: rounds(context, 20),
    subjects: [
      {
        name: 'node -e 0 (the floor)',
        cycle: async () => ({
          cold: await timed(async () => await once(spawn(process.execPath, ['-e', '0']), 'exit')),
        }),
      },
      ...(await publishedSubjects(join(cacheDir, 'codemode-package'))),
      ...(['quickjs', 'isolated-vm', 'deno', 'container', 'vm2'] as const).map((name) => sourceSubject(name)),
      ...(await squashSubjects(context, async (squash) => {
        const command = ['env', `SQUASH_DATA=${squash.env['SQUASH_DATA']}`, ...squash.cli()] as const;
        return [sourceSubject('sandbox', { squash: [...command] })];
      })),
      await cloudflareSubject(join(context.workDir, 'workerd-cold'), cacheDir),
    ],
  };
}

/** The package as users have it: JavaScript, with the memory that QuickJS starts from. */
async function publishedSubjects(folder: string): Promise<readonly Subject[]> {
  await buildCodemode(folder);
  const built = pathToFileURL(join(folder, 'dist/index.js')).href;
  const published = (await import(built)) as { readonly createExecutor: typeof createExecutor };
  return (['quickjs', 'isolated-vm'] as const).map((name) =>
    coldSubject(`${name}, as published`, () => published.createExecutor(name, { spares: 0 })),
  );
}

function sourceSubject(name: ExecutorName, options: ExecutorOptions = {}): Subject {
  return coldSubject(name, () => executorOf(name, { ...options, spares: 0 }));
}

function coldSubject(name: string, make: () => ReturnType<typeof createExecutor>): Subject {
  return {
    name,
    cycle: async () => {
      await using fresh = make();
      const cold = await timed(async () => {
        const { result, error } = await fresh.execute('async () => 1 + 1');
        if (result !== 2) throw new Error(`a run gave ${String(result)}: ${error ?? 'no error'}`);
      });
      return { cold };
    },
  };
}

async function cloudflareSubject(folder: string, cacheDir: string): Promise<Subject> {
  const name = 'DynamicWorkerExecutor';
  let place: WorkerdPlace;
  try {
    await mkdir(folder, { recursive: true });
    place = await prepareWorkerd(cacheDir, folder);
  } catch (failure) {
    return { name, absent: failure instanceof Error ? failure.message : String(failure) };
  }
  return {
    name,
    cycle: async () => {
      let fresh: Workerd | undefined;
      const cold = await timed(async () => {
        fresh = await startWorkerd(place);
      });
      await fresh?.[Symbol.asyncDispose]();
      return { cold };
    },
  };
}
