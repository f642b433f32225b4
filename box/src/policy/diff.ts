/** What one policy gives that another does not. Pure. */
import type { PathLevel } from '@squash/contract/path-levels';
import { compareLevels } from './levels.ts';
import { limitNames, type ResolvedPolicy } from './merge.ts';
import { longestMatch } from './paths.ts';

export interface PolicyChange {
  /** `fs /etc`, `net.allow`, `limits.cpu`. */
  readonly what: string;
  readonly before: string | null;
  readonly after: string | null;
  readonly direction: 'opens' | 'closes' | 'changes';
}

export function diffPolicies(before: ResolvedPolicy, after: ResolvedPolicy): readonly PolicyChange[] {
  return [
    ...diffPaths(before, after),
    ...diffSets(['net.allow', 'opens'], allowed(before), allowed(after)),
    ...diffSets(['net.ask', 'changes'], (before.net.ask ?? []).map(word), (after.net.ask ?? []).map(word)),
    ...diffSets(['net.deny', 'closes'], before.net.deny.map(word), after.net.deny.map(word)),
    ...diffSets(['env.pass', 'opens'], values(before.env.pass), values(after.env.pass)),
    ...diffValues('env.set', variables(before), variables(after)),
    ...diffSecrets(before, after),
    ...diffSets(['ports.host', 'opens'], values(before.ports.host), values(after.ports.host)),
    ...diffSets(['ports.publish', 'opens'], values(before.ports.publish), values(after.ports.publish)),
    ...diffSets(['sockets.allow', 'opens'], values(before.sockets), values(after.sockets)),
    ...diffSets(['devices.allow', 'opens'], values(before.devices), values(after.devices)),
    ...diffSets(['nesting', 'opens'], nested(before), nested(after)),
    ...diffLimits(before, after),
    ...diffValues('workdir', directory(before), directory(after)),
  ];
}

function diffPaths(before: ResolvedPolicy, after: ResolvedPolicy): readonly PolicyChange[] {
  const paths = [...new Set([...before.paths.keys(), ...after.paths.keys()])].sort();
  return paths.flatMap((path): readonly PolicyChange[] => {
    const [one, other] = [before, after].map(({ paths: rules }) => longestMatch(rules, path)?.rule);
    const [from, to]: readonly PathLevel[] = [one?.level ?? 'hidden', other?.level ?? 'hidden'];
    if (from === undefined || to === undefined) return [];
    if (from === to && one?.text === other?.text) return [];
    const order = compareLevels(from, to);
    return [
      {
        what: `fs ${path}`,
        before: from,
        after: to,
        direction: order < 0 ? 'opens' : order > 0 ? 'closes' : 'changes',
      },
    ];
  });
}

function diffSets(
  [what, added]: readonly [what: string, added: PolicyChange['direction']],
  before: readonly string[],
  after: readonly string[],
): readonly PolicyChange[] {
  const opposite = { opens: 'closes', closes: 'opens', changes: 'changes' } as const;
  return [
    ...before
      .filter((each) => !after.includes(each))
      .map((each): PolicyChange => ({ what, before: each, after: null, direction: opposite[added] })),
    ...after
      .filter((each) => !before.includes(each))
      .map((each): PolicyChange => ({ what, before: null, after: each, direction: added })),
  ];
}

function diffValues(
  what: string,
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): readonly PolicyChange[] {
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((name): readonly PolicyChange[] => {
    const [from, to] = [before.get(name) ?? null, after.get(name) ?? null];
    return from === to
      ? []
      : [{ what: `${what} ${name}`.trimEnd(), before: from, after: to, direction: 'changes' }];
  });
}

function diffSecrets(before: ResolvedPolicy, after: ResolvedPolicy): readonly PolicyChange[] {
  const uses = ({ secrets }: ResolvedPolicy): readonly string[] =>
    [...secrets].flatMap(([name, { from, hosts }]) =>
      hosts.map((host) => `${name} from ${from} for ${host}`),
    );
  return diffSets(['secrets', 'opens'], uses(before), uses(after));
}

function diffLimits(before: ResolvedPolicy, after: ResolvedPolicy): readonly PolicyChange[] {
  return limitNames.flatMap((name): readonly PolicyChange[] => {
    const [from, to] = [before.limits[name]?.value ?? Infinity, after.limits[name]?.value ?? Infinity];
    const text = (value: number): string | null => (value === Infinity ? null : `${value}`);
    if (from === to) return [];
    return [
      {
        what: `limits.${name}`,
        before: text(from),
        after: text(to),
        direction: to > from ? 'opens' : 'closes',
      },
    ];
  });
}

function nested({ nesting }: ResolvedPolicy): readonly string[] {
  return nesting === undefined ? [] : ['true'];
}

/** "none" stands for an empty list. */
function allowed({ net }: ResolvedPolicy): readonly string[] {
  return net.allow.map(word).filter((rule) => rule !== 'none');
}

function word(rule: unknown): string {
  return typeof rule === 'string' ? rule : JSON.stringify(rule);
}

function values(list: readonly { readonly value: string | number }[]): readonly string[] {
  return list.map(({ value }) => `${value}`);
}

function variables({ env }: ResolvedPolicy): ReadonlyMap<string, string> {
  return new Map([...env.set].map(([name, { value }]) => [name, value]));
}

function directory({ workdir }: ResolvedPolicy): ReadonlyMap<string, string> {
  return new Map(workdir === undefined ? [] : [['', workdir.value]]);
}
