/**
 * Runs a scenario: in each round one bare spawn and one cycle of every subject, in an order that turns with
 * the round. Nobody always runs behind the same neighbour, and load from outside hits all alike.
 *
 * A subject that fails in a cycle is out, with its error as the reason; the others go on.
 */
import type { AbsentSubject, PresentSubject, Scenario, ScenarioResult } from './scenario.ts';
import { timeToExit } from './process.ts';

/** Fewest bare spawns of a scenario: its ratios are only as good as their median. */
const spawnSamplesMin = 100;

/** A cycle, or what makes a scenario ready, that takes longer hangs: it is out, the run goes on. Slowest: 5 GB up and down. */
const cycleMsMax = 180_000;

/** What keeps a whole run within a quarter of an hour on a slow machine, too. */
const scenarioSecondsMax = 120;

/** S: one `spawn('/bin/true')` from Node, start to exit event. Every ratio in the report is against it. */
export async function spawnOnce(): Promise<number> {
  return await timeToExit(['/bin/true']);
}

export async function runScenario(scenario: Scenario, signal: AbortSignal): Promise<ScenarioResult> {
  const started = performance.now();
  const spawnMs: number[] = [];
  const samples = new Map<string, number[]>();
  const absent: AbsentSubject[] = [];
  const present: PresentSubject[] = [];
  for (const subject of scenario.subjects) {
    if ('absent' in subject) absent.push(subject);
    else present.push(subject);
  }

  const spawnsPerRound = Math.ceil(spawnSamplesMin / scenario.rounds);
  const lastMs = started + (scenario.secondsMax ?? scenarioSecondsMax) * 1000;
  for (let round = -scenario.warmups; round < scenario.rounds; round++) {
    // The first measured round has every subject, those that are slow as well.
    if (round > 0 && performance.now() >= lastMs) break;
    for (let count = 0; count < spawnsPerRound; count++) {
      const spawned = await spawnOnce();
      if (round >= 0) spawnMs.push(spawned);
    }
    for (const subject of turn(present, round)) {
      signal.throwIfAborted();
      if (Math.max(round, 0) % (subject.every ?? 1) !== 0) continue;
      try {
        const sample = await withinDeadline(subject.cycle(round));
        if (round < 0) continue;
        for (const [metric, value] of Object.entries(sample)) {
          const key = `${subject.name}\0${metric}`;
          samples.set(key, [...(samples.get(key) ?? []), value].flat());
        }
      } catch (error) {
        absent.push({ name: subject.name, absent: error instanceof Error ? error.message : String(error) });
        present.splice(present.indexOf(subject), 1);
      }
    }
  }
  const failed = new Set(absent.map(({ name }) => name));
  return {
    id: scenario.id,
    title: scenario.title,
    about: scenario.about,
    metrics: scenario.metrics,
    spawnMs,
    results: [...samples]
      .map(([key, values]) => {
        const [subject = '', metric = ''] = key.split('\0');
        return { subject, metric, samples: values };
      })
      .filter(({ subject }) => !failed.has(subject)),
    absent,
    seconds: (performance.now() - started) / 1000,
  };
}

/** @throws when the step has not ended in time; what it holds is its owner's to end */
export async function withinDeadline<T>(step: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`no end after ${cycleMsMax} ms`)), cycleMsMax);
  try {
    return await Promise.race([step, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

function turn<T>(items: readonly T[], by: number): readonly T[] {
  if (items.length === 0) return items;
  const at = Math.abs(by) % items.length;
  return [...items.slice(at), ...items.slice(0, at)];
}
