/**
 * One policy of all layers: managed > user > project > command line. Pure.
 *
 * What forbids holds, whoever says it: closed paths, `net.deny`, limits. What grants counts from the person's own files and
 * the managed one; from the project's only where its bytes are trusted, and never what would reach out of the box by
 * somebody else's word: where a secret's value is read, `rw` outside the repository, variables by a pattern.
 */
import { hostServiceName } from '@squash/contract/destination';
import { type PolicySource, policySchema } from '@squash/contract/policy';
import { isWithin } from '@squash/policy/paths/levels';
import type { Grounds } from './expand.ts';
import type { NetPart, PolicyFile } from './file-schema.ts';
import {
  type Layer,
  nameFits,
  type Origin,
  type PathLayer,
  type Said,
  type Source,
  sourceOf,
  type Traced,
} from './layers.ts';
import { type Dropped, mergePaths, type ResolvedPath } from './merge-paths.ts';
import { mergeSecrets, type ResolvedSecret } from './merge-secrets.ts';
import { PolicyProblem } from '../policy-problem.ts';

export interface ResolvedPolicy {
  readonly paths: ReadonlyMap<string, ResolvedPath>;
  /** Undefined: no file names one. */
  readonly workdir: Traced<string> | undefined;
  readonly net: PolicySource;
  /** Of each rule of `net`, by `allow[3]`. */
  readonly netSources: ReadonlyMap<string, Source>;
  readonly env: {
    /** Names, or beginnings with `*` behind them. */
    readonly pass: readonly Traced<string>[];
    /** What is never passed: the managed file’s word. */
    readonly forbidden: readonly string[];
    readonly set: ReadonlyMap<string, Traced<string>>;
  };
  readonly secrets: ReadonlyMap<string, ResolvedSecret>;
  readonly ports: {
    /** Of this machine, which the box reaches. */
    readonly host: readonly Traced<number>[];
    /** Of the box, which this machine reaches: `PORT` or `LOCAL:PORT`. */
    readonly publish: readonly Traced<string>[];
  };
  /** Paths, and words for the ssh-agent. */
  readonly sockets: readonly Traced<string>[];
  /** Paths, and names of kinds. */
  readonly devices: readonly Traced<string>[];
  /** Programs make user namespaces of their own. */
  readonly nesting: Traced<true> | undefined;
  readonly limits: { readonly [Name in LimitName]?: Traced<number> };
  readonly dropped: readonly Dropped[];
}

export const limitNames = ['memory_mb', 'cpu', 'processes', 'time_s'] as const;
export type LimitName = (typeof limitNames)[number];

/** @param pathLayers the defaults, and what `expandLayers` made of the same layers */
export function mergeLayers(
  layers: readonly Layer[],
  pathLayers: readonly PathLayer[],
  grounds: Grounds,
): ResolvedPolicy {
  const dropped: Dropped[] = [];
  const forbid = layers.flatMap(({ parts }) => parts.flatMap(({ policy }) => policy.forbid ?? []));
  const forbids = (name: 'rw' | 'net' | 'ports' | 'sockets' | 'devices' | 'nesting'): boolean =>
    forbid.some((each) => each[name] === true);
  const count = counting(dropped);
  const workdir = mergeWorkdir(pathLayers, grounds, dropped);
  const opened = pathLayers.map((layer) => withoutRepository(layer, workdir, grounds));
  const merged = mergePaths(opened, grounds, forbids('rw'));
  const ports = mergePorts(layers, count(forbids('ports')));
  const net = mergeNet(layers, ports.host, {
    count: count(forbids('net')),
    countPorts: count(forbids('net') || forbids('ports')),
  });
  const forbiddenNames = (list: 'env' | 'secrets'): readonly string[] =>
    forbid.flatMap((each) => each[list] ?? []);
  return {
    paths: merged.paths,
    workdir,
    ...net,
    env: mergeEnv(layers, forbiddenNames('env'), dropped),
    secrets: mergeSecrets(said(layers, 'secrets'), forbiddenNames('secrets'), dropped),
    ports,
    sockets: mergeOwn('sockets', said(layers, 'sockets'), { count: count(forbids('sockets')), dropped }),
    devices: mergeOwn('devices', said(layers, 'devices'), { count: count(forbids('devices')), dropped }),
    nesting: mergeNesting(said(layers, 'nesting'), { count: count(forbids('nesting')), dropped }),
    limits: mergeLimits(layers),
    dropped: [...merged.dropped, ...dropped],
  };
}

/** What the layers say of one section, in the order of layers and parts. */
function said<Key extends keyof PolicyFile>(
  layers: readonly Layer[],
  key: Key,
): readonly Said<Exclude<PolicyFile[Key], undefined>>[] {
  return layers.flatMap((layer) =>
    layer.parts.flatMap((part) => {
      const value = part.policy[key];
      if (value === undefined) return [];
      const { origin, isTrusted } = layer;
      return [
        {
          value: value as Exclude<PolicyFile[Key], undefined>,
          origin,
          isTrusted,
          source: sourceOf(layer, part, [key]),
          at: (name) => sourceOf(layer, part, [key, name]),
        },
      ];
    }),
  );
}

type Count = <T>(grants: readonly T[], name: string, from: Said<unknown>) => readonly T[];

/** Which grants count, and a line for those that do not. */
function counting(dropped: Dropped[]): (isForbidden: boolean) => Count {
  return (isForbidden) =>
    (grants, name, { origin, isTrusted, source }) => {
      const why = !isTrusted
        ? 'the project’s policy is not trusted'
        : isForbidden && origin !== 'managed' && origin !== 'default'
          ? 'the managed policy forbids it'
          : undefined;
      if (why === undefined) return grants;
      dropped.push(...grants.map((grant) => ({ rule: `${name} ${JSON.stringify(grant)}`, source, why })));
      return [];
    };
}

function mergeNet(
  layers: readonly Layer[],
  hostPorts: readonly Traced<number>[],
  { count, countPorts }: { readonly count: Count; readonly countPorts: Count },
): Pick<ResolvedPolicy, 'net' | 'netSources'> {
  const sections = said(layers, 'net');
  const rules = (list: 'allow' | 'deny' | 'ask'): readonly Traced<NetPart['allow'][number]>[] =>
    distinct(
      sections.flatMap((section) => {
        const written = section.value[list];
        // A port of this machine is one, by whatever section it is named.
        const counted =
          list === 'deny'
            ? written
            : [
                ...count(
                  written.filter((rule) => !namesHost(rule)),
                  `net.${list}`,
                  section,
                ),
                ...countPorts(written.filter(namesHost), `net.${list}`, section),
              ];
        return counted.map((value) => ({ value, source: section.at(list) }));
      }),
    );
  const services = hostPorts.map(({ value, source }) => ({ value: `${hostServiceName}:${value}`, source }));
  const lists = { allow: distinct([...rules('allow'), ...services]), deny: rules('deny'), ask: rules('ask') };
  const trusted = sections.filter(({ isTrusted }) => isTrusted).map(({ value }) => value);
  const times = trusted.flatMap(({ ask_timeout_ms: ms }) => (ms === undefined ? [] : [ms]));
  const values = (list: keyof typeof lists): readonly NetPart['allow'][number][] =>
    lists[list].map(({ value }) => value);
  const checked = policySchema.safeParse({
    allow: values('allow'),
    deny: values('deny'),
    ...(lists.ask.length > 0 && { ask: values('ask') }),
    dns: trusted.some(({ dns }) => dns === 'nxdomain') ? 'nxdomain' : 'refuse',
    ...(times.length > 0 && { ask_timeout_ms: Math.min(...times) }),
  });
  if (!checked.success)
    throw new PolicyProblem(
      checked.error.issues.map(({ message }) => `all policies together: net.${message}`),
    );
  const sources = Object.entries(lists).flatMap(([list, entries]) =>
    entries.map(({ source }, at): [string, Source] => [`${list}[${at}]`, source]),
  );
  return { net: checked.data, netSources: new Map(sources) };
}

function namesHost(rule: NetPart['allow'][number]): boolean {
  const destinations = typeof rule === 'string' ? [rule] : rule.to;
  return destinations.some((to) => to.includes(hostServiceName));
}

/** The first that says a thing is the one that is named. */
function distinct<T>(rules: readonly Traced<T>[]): readonly Traced<T>[] {
  const seen = new Map<string, Traced<T>>();
  for (const rule of rules) {
    const name = JSON.stringify(rule.value);
    if (!seen.has(name)) seen.set(name, rule);
  }
  return [...seen.values()];
}

function mergePorts(layers: readonly Layer[], count: Count): ResolvedPolicy['ports'] {
  const sections = said(layers, 'ports');
  const counted = <T>(list: 'host' | 'publish', of: (section: (typeof sections)[number]) => readonly T[]) =>
    distinct(
      sections.flatMap((section) =>
        count(of(section), `ports.${list}`, section).map((value) => ({ value, source: section.at(list) })),
      ),
    );
  return {
    host: counted('host', ({ value }) => value.host ?? []),
    publish: counted('publish', ({ value }) => (value.publish ?? []).map(String)),
  };
}

/** Who writes a repository's file must not reach what listens on this machine, nor its hardware, trusted or not. */
function mergeOwn(
  what: 'sockets' | 'devices',
  sections: readonly Said<{ readonly allow?: readonly string[] | undefined }>[],
  { count, dropped }: { readonly count: Count; readonly dropped: Dropped[] },
): readonly Traced<string>[] {
  const all = sections.flatMap((section) => {
    const written = section.value.allow ?? [];
    const source = section.at('allow');
    if (section.origin !== 'project')
      return count(written, `${what}.allow`, section).map((value) => ({ value, source }));
    const why = `a project’s policy opens no ${what}`;
    dropped.push(...written.map((word) => ({ rule: `${what}.allow ${JSON.stringify(word)}`, source, why })));
    return [];
  });
  return distinct(all);
}

function mergeNesting(
  sections: readonly Said<boolean>[],
  { count, dropped }: { readonly count: Count; readonly dropped: Dropped[] },
): Traced<true> | undefined {
  const closes = sections.find(({ value }) => !value);
  const granted = sections.flatMap((section): readonly Traced<true>[] => {
    const { value, origin, source } = section;
    if (!value) return [];
    const why =
      origin === 'project'
        ? 'a project’s policy opens no nesting'
        : closes !== undefined
          ? `${closes.source.file} closes it`
          : undefined;
    if (why === undefined)
      return count([true] as const, 'nesting', section).map(() => ({ value: true, source }));
    dropped.push({ rule: 'nesting true', source, why });
    return [];
  });
  return granted[0];
}

/** Where two set the same thing the later one is listened to. */
const order: readonly Origin[] = ['default', 'project', 'user', 'command line', 'managed'];

function byAuthority(one: { readonly origin: Origin }, other: { readonly origin: Origin }): number {
  return order.indexOf(one.origin) - order.indexOf(other.origin);
}

function mergeEnv(
  layers: readonly Layer[],
  forbidden: readonly string[],
  dropped: Dropped[],
): ResolvedPolicy['env'] {
  const pass: Traced<string>[] = [];
  const set = new Map<string, Traced<string>>();
  const sections = said(layers, 'env').toSorted(byAuthority);
  for (const { value, origin, isTrusted, at } of sections) {
    const isForbidden = (name: string): boolean =>
      origin !== 'managed' && forbidden.some((pattern) => nameFits(pattern, name));
    const refusal = (name: string, isPassed: boolean): string | undefined => {
      if (!isTrusted) return 'the project’s policy is not trusted';
      if (isForbidden(name)) return 'the managed policy forbids it';
      if (isPassed && origin === 'project' && name.endsWith('*'))
        return 'a project’s policy passes variables by their whole names only';
      return undefined;
    };
    for (const name of value.pass ?? []) {
      const why = refusal(name, true);
      if (why === undefined) pass.push({ value: name, source: at('pass') });
      else dropped.push({ rule: `env.pass ${JSON.stringify(name)}`, source: at('pass'), why });
    }
    for (const [name, text] of Object.entries(value.set ?? {})) {
      const why = refusal(name, false);
      if (why === undefined) set.set(name, { value: text, source: at('set') });
      else dropped.push({ rule: `env.set ${JSON.stringify(name)}`, source: at('set'), why });
    }
  }
  return { pass: distinct(pass), forbidden, set };
}

/** Of all layers, trusted or not: the least. */
function mergeLimits(layers: readonly Layer[]): ResolvedPolicy['limits'] {
  const sections = said(layers, 'limits');
  return Object.fromEntries(
    limitNames.flatMap((name) => {
      const values = sections.flatMap(({ value, at }) => {
        const limit = value[name];
        return limit === undefined ? [] : [{ value: limit, source: at(name) }];
      });
      const [first, ...others] = values;
      if (first === undefined) return [];
      return [[name, others.reduce((least, each) => (each.value < least.value ? each : least), first)]];
    }),
  );
}

function mergeWorkdir(
  layers: readonly PathLayer[],
  grounds: Grounds,
  dropped: Dropped[],
): Traced<string> | undefined {
  let chosen: Traced<string> | undefined;
  for (const { origin, isTrusted, workdirs } of layers.toSorted(byAuthority)) {
    for (const { path, written, source } of workdirs) {
      const why = !isTrusted
        ? 'the project’s policy is not trusted'
        : origin === 'project' && !isWithin(path, grounds.repository)
          ? 'a project’s policy works within the repository only'
          : undefined;
      if (why === undefined) chosen = { value: path, source };
      else dropped.push({ rule: `workdir ${JSON.stringify(written)}`, source, why });
    }
  }
  return chosen;
}

/** The repository is opened because it is where one works: not where a file names another place. */
function withoutRepository(
  layer: PathLayer,
  workdir: Traced<string> | undefined,
  { repository }: Grounds,
): PathLayer {
  if (layer.origin !== 'default' || workdir === undefined || workdir.value === repository) return layer;
  return { ...layer, rules: layer.rules.filter(({ path }) => path !== repository) };
}
