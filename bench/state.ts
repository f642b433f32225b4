/**
 * The finished scenarios of a run, saved after each, so that a run that was broken off (a session's time limit,
 * a closed laptop) goes on where it was. A run of another commit or thoroughness is not mixed in.
 */
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { ScenarioResult } from './measure/scenario.ts';

export interface SavedRun {
  readonly commit: string;
  readonly quick: boolean;
  readonly scenarios: readonly ScenarioResult[];
}

/** Empty where there is no such run. The file is this program's own, written whole or not at all. */
export async function loadFinished(path: string, commit: string, quick: boolean): Promise<ScenarioResult[]> {
  const text = await readFile(path, 'utf8').catch(() => undefined); // No run was saved.
  if (text === undefined) return [];
  const saved = JSON.parse(text) as SavedRun;
  return saved.commit === commit && saved.quick === quick ? [...saved.scenarios] : [];
}

export async function saveFinished(path: string, run: SavedRun): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(`${path}.tmp`, JSON.stringify(run));
  await rename(`${path}.tmp`, path);
}
