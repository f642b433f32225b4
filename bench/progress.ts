/** What a run says while it measures, on stderr: stdout is the page or the JSON. */
import type { ScenarioId } from './options.ts';

/** Of a whole run on two cores that do nothing else, setting up the scenario included. Only for what is said here. */
const usualSeconds: Readonly<Record<ScenarioId, number>> = {
  exec: 35,
  cells: 100,
  cli: 12,
  box: 60,
  create: 40,
  burst: 90,
  'snapshot-1': 3,
  'snapshot-10': 8,
  'snapshot-100': 30,
  'snapshot-500': 60,
  'snapshot-next': 40,
  images: 60,
  builds: 60,
  s3: 40,
  memory: 180,
  groups: 120,
  vm: 240,
  layers: 40,
  transfer: 200,
  sync: 90,
  tunnel: 60,
  intercept: 60,
  flood: 60,
  codemode: 90,
  'codemode-cold': 80,
};

export function note(words: string): void {
  process.stderr.write(`bench: ${words}\n`);
}

/** Before the first of `left`: how long it takes, and how long it and those behind it take. */
export function announce(left: readonly ScenarioId[], quick: boolean): void {
  const [id] = left;
  if (id === undefined) return;
  // A quick run has a tenth of the rounds, but sets up all the same.
  const share = quick ? 0.2 : 1;
  const all = left.reduce((sum, one) => sum + usualSeconds[one], 0);
  note(`${id}: about ${duration(usualSeconds[id] * share)}; to the end about ${duration(all * share)}`);
}

function duration(seconds: number): string {
  return seconds < 100 ? `${Math.ceil(seconds)} s` : `${Math.round(seconds / 60)} min`;
}
