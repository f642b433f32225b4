/** The command line of `squash bench`. */
import { parseArgs } from 'node:util';

export const scenarioIds = [
  'exec',
  'cells',
  'cli',
  'box',
  'create',
  'burst',
  'snapshot-1',
  'snapshot-10',
  'snapshot-100',
  'snapshot-500',
  'snapshot-next',
  'images',
  'builds',
  's3',
  'memory',
  'groups',
  'vm',
  'layers',
  'transfer',
  'sync',
  'tunnel',
  'intercept',
  'flood',
  'codemode',
  'codemode-cold',
] as const;
export type ScenarioId = (typeof scenarioIds)[number];

export interface Options {
  readonly quick: boolean;
  readonly only: readonly ScenarioId[];
  readonly json: boolean;
  readonly resume: boolean;
  /** Where the page goes; undefined: nowhere. */
  readonly out: string | undefined;
}

export const usage = `usage: squash bench [--quick] [--only SCENARIO,…] [--json] [--resume] [--out FILE]

Measures Squash beside bare spawn, bubblewrap, podman, runsc and srt, and writes docs/performance.md after each
scenario. Some twenty minutes; run it on a machine that does nothing else.

  --quick     few samples, small sizes, under two minutes; prints only, unless --out says where to write
  --only X    these scenarios; the page keeps the others as they are, with the run they come from
              (${scenarioIds.join(', ')})
  --json      samples and verdicts as JSON on stdout instead of the page
  --resume    go on with the run that was broken off: its finished scenarios are kept
  --out FILE  write the page here instead
`;

/** @throws TypeError with a sentence for the user */
export function parseOptions(args: readonly string[], page: string): Options | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true, default: [] },
      json: { type: 'boolean', default: false },
      resume: { type: 'boolean', default: false },
      out: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return 'help';
  const only = values.only.flatMap((value) => value.split(',')).map(scenarioId);
  if (values.quick && values.resume)
    throw new TypeError('a quick run is not kept, so there is none to resume');
  return {
    quick: values.quick,
    only,
    json: values.json,
    resume: values.resume,
    out: values.out ?? (values.quick ? undefined : page),
  };
}

function scenarioId(name: string): ScenarioId {
  const found = scenarioIds.find((id) => id === name);
  if (found === undefined) throw new TypeError(`no scenario "${name}"; there are: ${scenarioIds.join(', ')}`);
  return found;
}
