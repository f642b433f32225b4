/** Counts of one run, and how they are printed while it goes on. */
export interface Tally {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** A report for each file that failed and then passed alone: its first line begins with `flaky`, the others are indented. */
  readonly flaky: readonly string[];
}

export const emptyTally: Tally = { passed: 0, failed: 0, skipped: 0, flaky: [] };

export function add(a: Tally, b: Tally): Tally {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: a.skipped + b.skipped,
    flaky: [...a.flaky, ...b.flaky],
  };
}

/** The line that `squash test` ends with; CI reads it. */
export function tallyLine(tally: Tally): string {
  return `${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped`;
}

/** The last such line in a text, and the reports of flaky files. */
export function parseTally(text: string): Tally | undefined {
  const found = [...text.matchAll(/^(\d+) passed, (\d+) failed, (\d+) skipped$/gm)].at(-1);
  if (found === undefined) return undefined;
  const flaky = text.match(/^flaky .*(?:\n .*)*/gm) ?? [];
  return { passed: Number(found[1]), failed: Number(found[2]), skipped: Number(found[3]), flaky };
}

export function printOutcome(outcome: {
  readonly ok: boolean;
  readonly name: string;
  readonly note: string;
}) {
  console.log(`  ${outcome.ok ? 'ok  ' : 'FAIL'} ${outcome.name}  ${outcome.note}`);
}

export function seconds(sinceMs: number): string {
  return `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;
}
