/** Which rule decides about a path or a host, where it stands, and what a program in the box finds there. Pure. */
import { type PolicyQuestion, type PolicyTestAnswer, policyTestBodySchema } from '@squash/contract/egress';
import { compilePolicy } from '@squash/policy/compile';
import { explain } from '@squash/policy/explain';
import { isClosed as isClosedPlace } from '../closed.ts';
import type { Grounds } from './expand.ts';
import type { Source } from './layers.ts';
import type { PathLevel } from '@squash/contract/path-levels';
import { insideWords } from './levels.ts';
import type { ResolvedPolicy } from './merge.ts';
import { hostCovers } from './merge-secrets.ts';
import { longestMatch, upwards } from './paths.ts';

export interface PathReason {
  readonly path: string;
  readonly level: PathLevel;
  /** As it is written; null where none names the path. */
  readonly rule: string | null;
  /** The path that the rule is about: this one or one above it. */
  readonly at: string | null;
  readonly source: Source | null;
  readonly inside: string;
}

/** @param path absolute, without links */
export function whyPath(policy: ResolvedPolicy, path: string, grounds: Grounds): PathReason {
  const none = { path, level: 'hidden', rule: null, source: null } as const;
  const match = longestMatch(policy.paths, path);
  const closed = [...upwards(path)].findLast((place) => isClosedPlace(place, grounds.home));
  if (closed !== undefined)
    return {
      ...none,
      at: closed,
      inside: `${closed} of this machine is closed in every box, whatever a policy says`,
    };
  if (match === undefined) return { ...none, at: null, inside: `no rule names it: ${insideWords.hidden}` };
  const { level, written, source } = match.rule;
  return { path, level, rule: written, at: match.path, source, inside: insideWords[level] };
}

export interface HostReason {
  readonly answer: PolicyTestAnswer;
  /** Of the rules that the answer's steps name. */
  readonly sources: readonly { readonly rule: string; readonly source: Source }[];
  /** Secrets that a request to it may carry. */
  readonly secrets: readonly string[];
}

/** @returns what is wrong with the word, where it is no destination */
export function readQuestion(to: string): PolicyQuestion | string {
  const asked = policyTestBodySchema.safeParse({ to });
  return asked.success ? asked.data.to : asked.error.issues.map(({ message }) => message).join('; ');
}

export function whyHost(policy: ResolvedPolicy, question: PolicyQuestion): HostReason {
  const compiled = compilePolicy({ policy: policy.net, ceiling: undefined, allowRanges: [] });
  const answer = explain(compiled, question, 'GET');
  const sources = [...policy.netSources].flatMap(([rule, source]) =>
    answer.steps.some((step) => step.rule === rule || step.rule.startsWith(`${rule} `))
      ? [{ rule, source }]
      : [],
  );
  const { host, address = '' } = question;
  const place = host ?? (address.includes(':') ? `[${address}]` : address);
  const secrets = [...policy.secrets].flatMap(([name, { hosts }]) =>
    hosts.some((pattern) => hostCovers(pattern, `${place}:${question.port}`)) ? [name] : [],
  );
  return { answer, sources, secrets };
}
