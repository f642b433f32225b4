/** Keeps what a run measures: after each scenario the state and the page are written, so that nothing waits for the end. */
import { existsSync } from 'node:fs';
import type { ScenarioId } from './options.ts';
import { performancePage } from './report.ts';
import {
  finishedOf,
  loadState,
  type Measured,
  newestRun,
  replaceFile,
  type RunFacts,
  saveState,
  withMeasured,
} from './state.ts';

export interface RecordOptions {
  readonly statePath: string;
  /** Undefined: no page is written. */
  readonly pagePath: string | undefined;
  /** Below the figures. */
  readonly notes: string;
  /** False for a quick run, whose few samples must not take the place of many. */
  readonly keeps: boolean;
  /** False where only some scenarios are wanted: the page keeps the others. */
  readonly isWhole: boolean;
}

export class RunRecord {
  readonly #options: RecordOptions;
  /** Everything the page shows: of this run and of those before it. */
  #shown: readonly Measured[];
  #own: readonly Measured[] = [];
  #resumed: RunFacts | undefined;

  private constructor(options: RecordOptions, saved: readonly Measured[]) {
    this.#options = options;
    this.#shown = saved;
  }

  /** @throws TypeError where the page would lose scenarios that no earlier run here has kept */
  static async open(options: RecordOptions): Promise<RunRecord> {
    const { statePath, pagePath, isWhole, keeps } = options;
    const saved = keeps ? await loadState(statePath) : [];
    if (saved.length === 0 && !isWhole && keeps && pagePath !== undefined && existsSync(pagePath)) {
      throw new TypeError(
        `${pagePath} would lose its other scenarios: no earlier run is kept in ${statePath}. Run all, or give another --out`,
      );
    }
    return new RunRecord(options, saved);
  }

  /** Of this run, those included that it goes on from. */
  get measured(): readonly Measured[] {
    return this.#own;
  }

  /** The run that is gone on with: what is measured now belongs to it. */
  get resumed(): RunFacts | undefined {
    return this.#resumed;
  }

  /** Goes on with the newest run, if that measured this commit. @returns what need not be measured again */
  resume(commit: string): ReadonlySet<ScenarioId> {
    this.#own = finishedOf(this.#shown, commit);
    this.#resumed = newestRun(this.#own);
    return new Set(this.#own.map(({ result }) => result.id));
  }

  async add(next: Measured): Promise<void> {
    const { statePath, pagePath, notes, keeps } = this.#options;
    this.#own = withMeasured(this.#own, next);
    this.#shown = withMeasured(this.#shown, next);
    if (keeps) await saveState(statePath, this.#shown);
    if (pagePath !== undefined) await replaceFile(pagePath, performancePage(this.#shown, notes));
  }
}
