/**
 * Which secrets a box gets. Where a value is read is said by the person's own files, the managed one or the command line, never
 * by a project's: `env:AWS_SECRET_ACCESS_KEY` in a repository would be a way to take it. What a project may say is that
 * a secret goes to fewer hosts.
 */
import { parsePattern } from '@squash/contract/destination';
import type { SecretSurface } from '@squash/contract/secrets';
import type { PolicyFile } from './file-schema.ts';
import type { Dropped } from './merge-paths.ts';
import { PolicyProblem } from '../policy-problem.ts';
import { nameFits, type Said, type Source, type Traced } from './layers.ts';

export interface ResolvedSecret {
  /** `env:NAME`, `file:PATH` or `cmd:COMMAND`. */
  readonly from: string;
  readonly hosts: readonly string[];
  readonly surfaces?: readonly SecretSurface[];
  readonly source: Source;
}

type Section = Exclude<PolicyFile['secrets'], undefined>;

export function mergeSecrets(
  sections: readonly Said<Section>[],
  forbidden: readonly string[],
  dropped: Dropped[],
): ReadonlyMap<string, ResolvedSecret> {
  const given = new Map<string, ResolvedSecret>();
  const narrowed: Traced<readonly [name: string, hosts: readonly string[]]>[] = [];
  for (const { value, origin, source } of sections) {
    for (const [name, { from, hosts, surfaces }] of Object.entries(value)) {
      const why =
        from === undefined
          ? undefined
          : origin === 'project'
            ? 'a project’s policy never says where a secret is read'
            : origin !== 'managed' && forbidden.some((pattern) => nameFits(pattern, name))
              ? 'the managed policy forbids it'
              : undefined;
      if (why !== undefined) dropped.push({ rule: `secrets.${name}`, source, why });
      else if (from === undefined) narrowed.push({ value: [name, hosts], source });
      // The managed file's stands: it is the first.
      else if (given.get(name)?.source.origin !== 'managed' || origin === 'managed')
        given.set(name, { from, hosts, ...(surfaces !== undefined && { surfaces }), source });
    }
  }
  for (const { value, source } of narrowed) {
    const [name, hosts] = value;
    const secret = given.get(name);
    if (secret === undefined) {
      if (source.origin !== 'project')
        throw new PolicyProblem([
          `${source.file}: secrets.${name} has no "from", and no other file gives it one`,
        ]);
      dropped.push({
        rule: `secrets.${name}`,
        source,
        why: 'none of your own files gives a secret of this name',
      });
      continue;
    }
    const left = hosts.filter((host) => secret.hosts.some((wide) => hostCovers(wide, host)));
    if (left.length === 0) given.delete(name);
    else given.set(name, { ...secret, hosts: left });
    if (left.length < hosts.length)
      dropped.push({
        rule: `secrets.${name}`,
        source,
        why: `it goes to no other hosts than ${secret.hosts.join(', ')}`,
      });
  }
  return given;
}

/** Whether what the second names is named by the first too. */
export function hostCovers(wide: string, narrow: string): boolean {
  if (wide === narrow) return true;
  const [outer, inner] = [parsePattern(wide), parsePattern(narrow)];
  if (!outer.ok || !inner.ok) return false;
  const { target: place, ports } = outer.pattern;
  const { target: within, ports: asked } = inner.pattern;
  const hasPorts =
    ports === undefined || (asked !== undefined && ports.first <= asked.first && asked.last <= ports.last);
  if (!hasPorts) return false;
  if (place.kind === 'subdomains' && (within.kind === 'host' || within.kind === 'subdomains'))
    return (
      within.host.endsWith(`.${place.host}`) || (within.kind === 'subdomains' && within.host === place.host)
    );
  if (place.kind === 'network' && within.kind === 'network') return place.range === within.range;
  return place.kind === 'host' && within.kind === 'host' && place.host === within.host;
}
