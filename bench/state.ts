/**
 * What has been measured: the newest result of each scenario with the run it comes from, kept in one file.
 *
 * It is saved after each scenario, and the page is written from it: a run that was broken off loses the scenario it
 * was in, and a run of one scenario replaces that one and leaves the others what they were, each with its own run.
 */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import type { Machine } from './measure/machine.ts';
import { type ScenarioResult, units } from './measure/scenario.ts';
import { type ScenarioId, scenarioIds } from './options.ts';

const text = z.string();
const samples = z.array(z.number());

const runSchema = z.strictObject({
  /** ISO 8601, UTC; also what tells two runs apart. */
  startedAt: text,
  commit: text,
  cpu: text,
  cores: z.number(),
  memoryGb: z.number(),
  kernel: text,
  system: text,
  node: text,
  user: text,
  cgroups: text,
  fileSystem: text,
  quick: z.boolean(),
  peerNotes: z.array(text),
});

const resultSchema = z.strictObject({
  id: z.enum(scenarioIds),
  title: text,
  about: text,
  metrics: z.array(z.strictObject({ id: text, title: text, unit: z.enum(units) })),
  spawnMs: samples,
  results: z.array(z.strictObject({ subject: text, metric: text, samples })),
  absent: z.array(z.strictObject({ name: text, absent: text })),
  seconds: z.number(),
});

const stateSchema = z.strictObject({
  version: z.literal(2),
  measured: z.array(z.strictObject({ run: runSchema, result: resultSchema })),
});

/** What stands above a run's figures. */
export interface RunFacts extends Machine {
  readonly startedAt: string;
  readonly quick: boolean;
  readonly peerNotes: readonly string[];
}

export interface Measured {
  readonly run: RunFacts;
  readonly result: ScenarioResult;
}

/** Empty where nothing was saved, or by a version that wrote another file. */
export async function loadState(path: string): Promise<readonly Measured[]> {
  const saved = await readFile(path, 'utf8').catch(() => 'null'); // Nothing was measured here yet.
  const state = stateSchema.safeParse(JSON.parse(saved));
  return state.success ? state.data.measured : [];
}

export async function saveState(path: string, measured: readonly Measured[]): Promise<void> {
  await replaceFile(path, JSON.stringify({ version: 2, measured }));
}

/** A reader, and whoever comes after a crash, sees the old file or the new one. */
export async function replaceFile(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(`${path}.tmp`, content);
  await rename(`${path}.tmp`, path);
}

/** With `next` in its scenario's place; in the order of the page, whatever was measured first. */
export function withMeasured(measured: readonly Measured[], next: Measured): readonly Measured[] {
  const all = [...measured.filter(({ result }) => result.id !== next.result.id), next];
  return all.sort((one, other) => place(one.result.id) - place(other.result.id));
}

function place(id: ScenarioId): number {
  return scenarioIds.indexOf(id);
}

/** What a run that is taken up again need not measure: the scenarios of the newest run, where that had this commit. */
export function finishedOf(measured: readonly Measured[], commit: string): readonly Measured[] {
  const startedAt = newestRun(measured)?.startedAt;
  return measured.filter(({ run }) => run.startedAt === startedAt && run.commit === commit);
}

export function newestRun(measured: readonly Measured[]): RunFacts | undefined {
  const runs = measured.map(({ run }) => run);
  return runs.sort((one, other) => other.startedAt.localeCompare(one.startedAt))[0];
}
