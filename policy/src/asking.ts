/**
 * Which rule of `ask` puts a question, and which rules spare it. Pure.
 *
 * What a newcomer would get wrong: neither list is stronger than the other. `allow: ["*"]` with `ask: ["api.example.com"]` has a
 * person asked for that host, `allow: ["api.example.com"]` with `ask: ["*"]` for every other one. So a rule of `allow`
 * spares the question only where it is as narrow as the rule of `ask`, or narrower, in each respect: place, ports,
 * paths, methods. Where the two can't be compared, a person is asked; and so he is where both say "everything", because
 * that is what a policy allows that says nothing.
 */
import type { PolicyRule } from '@squash/contract/policy';
import type { Destination, Question, RequestAsked } from './policy.ts';
import type { PlacedRule } from './rule-table.ts';

/** What is asked of the policy: a connection, or a request on one. */
export interface Asked {
  readonly destination: Destination;
  readonly request: RequestAsked | undefined;
}

/** Precondition: both concern what is asked. */
export function isAsNarrow(one: PolicyRule, other: PolicyRule, { destination, request }: Asked): boolean {
  const path = request?.path ?? '';
  const differences = [
    order(width(one), width(other)),
    order(portsWidth(one, destination.port), portsWidth(other, destination.port)),
    order(pathOf(other, path)?.length ?? 0, pathOf(one, path)?.length ?? 0),
    Number(one.methods === undefined) - Number(other.methods === undefined),
  ];
  if (differences.some((difference) => difference > 0)) return false;
  return one.target.kind !== 'any' || differences.some((difference) => difference < 0);
}

/** The narrowest: its answer is about the least. */
export function narrowest(rules: readonly PlacedRule[], asked: Asked): PlacedRule | undefined {
  const path = asked.request?.path ?? '';
  const { port } = asked.destination;
  return rules.toSorted(
    (one, other) =>
      order(width(one), width(other)) ||
      order(pathOf(other, path)?.length ?? 0, pathOf(one, path)?.length ?? 0) ||
      Number(one.methods === undefined) - Number(other.methods === undefined) ||
      portsWidth(one, port) - portsWidth(other, port),
  )[0];
}

export function questionOf(rule: PolicyRule, { destination, request }: Asked, waitMs: number): Question {
  const method = request?.method.toUpperCase();
  return {
    ...destination,
    // HEAD is GET without the body.
    method: rule.methods === undefined ? undefined : method === 'HEAD' ? 'GET' : method,
    path: request === undefined ? undefined : pathOf(rule, request.path),
    upgrades: rule.upgrades,
    waitMs,
  };
}

/** The longest of its paths that holds this one; servers that make no difference between `/A` and `/a` make none here. */
function pathOf({ paths }: PolicyRule, path: string): string | undefined {
  const folded = path.toLowerCase();
  return paths
    ?.filter((prefix) => isBelow(folded, prefix.toLowerCase()))
    .toSorted((one, other) => other.length - one.length)[0];
}

/** `/v1` holds `/v1` and `/v1/models`, not `/v1beta`; `/v1/` holds what is below only. */
export function isBelow(path: string, prefix: string): boolean {
  if (!path.startsWith(prefix)) return false;
  return path.length === prefix.length || prefix.endsWith('/') || path[prefix.length] === '/';
}

/** Of rules that concern one destination, which are either all about names or all about addresses. */
function width({ target }: PolicyRule): number {
  switch (target.kind) {
    case 'any':
      return Number.POSITIVE_INFINITY;
    case 'host':
      return 0;
    case 'subdomains':
      return 256 - target.host.length;
    case 'network': {
      const [address = '', prefix] = target.range.split('/');
      return (address.includes(':') ? 128 : 32) - Number(prefix);
    }
  }
}

function portsWidth({ ports }: PolicyRule, port: number): number {
  const around = ports?.filter(({ first, last }) => first <= port && port <= last) ?? [];
  const widths = around.map(({ first, last }) => last - first);
  return ports === undefined ? 65_536 : Math.min(...widths);
}

function order(one: number, other: number): number {
  return one === other ? 0 : one < other ? -1 : 1;
}
