/**
 * One run of the crash suite: operation after operation, each with a daemon that is killed in it, each followed by
 * a new daemon and the check that nothing is lost, torn or left over.
 *
 * Two ways to die: at a named point inside the daemon, and by SIGKILL from outside after a random time.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { type FaultPoint, faultPoints } from '../../host/src/sandbox/fault.ts';
import { type DaemonOptions, TestDaemon } from '../support/daemon.ts';
import { checkAll, type Model } from './model.ts';
import { type Attempt, type Operation, operations } from './operations.ts';
import { type Random, seeded } from './random.ts';

export interface CrashRunOptions {
  readonly seed: number;
  readonly points: number;
  readonly daemon: DaemonOptions;
  readonly say: (line: string) => void;
}

export interface CrashReport {
  /** Deaths, by operation and where: every point that was passed, and `at random`. */
  readonly deaths: ReadonlyMap<string, number>;
  /** Operations that ended before the point was reached; the daemon was killed after them. */
  readonly unreached: number;
}

interface Step {
  readonly operation: Operation;
  readonly point: FaultPoint | undefined;
  readonly delayMs: number;
}

/** @throws at the first thing that is lost, torn or left over; the seed repeats it */
export async function crashRun(options: CrashRunOptions): Promise<CrashReport> {
  const random = seeded(options.seed);
  const model: Model = new Map();
  const deaths = new Map<string, number>();
  let unreached = 0;
  await using daemon = await TestDaemon.start(options.daemon);
  for (let serial = 1; serial <= options.points; serial += 1) {
    const { step, attempt } = choose(model, random, serial);
    const where = `${step.operation.name} ${step.point ?? 'at random'}`;
    try {
      const died = await interrupt(daemon, step, attempt);
      if (died) deaths.set(where, (deaths.get(where) ?? 0) + 1);
      else unreached += 1;
      await checkAll(daemon, model);
    } catch (error) {
      throw new Error(
        `seed ${options.seed}, step ${serial} of ${options.points}: ${where}, ${attempt.what}: ${String(error)}\n${daemon.output.slice(-6_000)}`,
        { cause: error },
      );
    }
    if (serial % 50 === 0) options.say(`${serial} of ${options.points} points`);
  }
  return { deaths, unreached };
}

/** Names of all points that some operation can reach. */
export function reachablePoints(): readonly FaultPoint[] {
  const reached = new Set(operations.flatMap((operation) => operation.points));
  return faultPoints.filter((point) => reached.has(point));
}

function choose(model: Model, random: Random, serial: number): { step: Step; attempt: Attempt } {
  for (;;) {
    const operation = random.pick(operations);
    // A third of the deaths come from outside, at a time that no point names.
    const point = random.below(3) === 0 ? undefined : random.pick(operation.points);
    const delayMs = random.below(40);
    const attempt = operation.prepare(model, random, serial);
    if (attempt !== undefined) return { step: { operation, point, delayMs }, attempt };
  }
}

/** True where the daemon died in the operation. Ends with a daemon that answers. */
async function interrupt(daemon: TestDaemon, step: Step, attempt: Attempt): Promise<boolean> {
  if (step.point !== undefined) {
    await daemon.kill();
    await daemon.launch({ SQUASH_FAULT_POINT: step.point });
    // Recovery may pass the point as well: then that is where it dies, and the operation is not even asked for.
    if (!(await answersOrDies(daemon))) {
      await daemon.start();
      return true;
    }
  }
  const asked = attempt.send(daemon);
  if (step.point === undefined) {
    await delay(step.delayMs);
    await daemon.kill();
  }
  const answer = await asked;
  // A point behind the answer is reached a moment after it.
  const died = step.point === undefined || (await diesSoon(daemon));
  await daemon.kill();
  await daemon.start();
  if (answer === undefined) await attempt.unanswered(daemon);
  else attempt.acknowledged(answer);
  return died;
}

async function answersOrDies(daemon: TestDaemon): Promise<boolean> {
  try {
    await daemon.healthy();
    return true;
  } catch (error) {
    if (daemon.pid === undefined) return false;
    throw error;
  }
}

async function diesSoon(daemon: TestDaemon): Promise<boolean> {
  const endMs = performance.now() + 300;
  while (daemon.pid !== undefined && performance.now() < endMs) await delay(5);
  return daemon.pid === undefined;
}
