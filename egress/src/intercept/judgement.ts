/**
 * Whether a request may go out, before a byte of it does: well formed, for the host that was dialled, allowed by the policy
 * in every reading of its path and method. Pure.
 */
import type { Policy, Question, Verdict } from '@squash/policy/policy';
import { remedyOf } from '@squash/policy/remedy';
import type { InterceptedConnection } from '../ports.ts';
import { agree } from './authority.ts';
import { fieldsOf } from './headers.ts';
import type { HeaderList, RequestHead } from './message.ts';
import { pathReadings } from './path-readings.ts';
import type { Refusal } from './refusal-page.ts';

export type Judgement =
  | { readonly kind: 'go'; readonly target: string; readonly authority: string; readonly rule: string }
  /** `rule` is what the decision log gets. With a `question` a person may allow it yet. */
  | {
      readonly kind: 'refuse';
      readonly refusal: Refusal;
      readonly rule: string;
      readonly question?: Question | undefined;
    };

/** Frameworks take these headers for the method or the path that was meant, written with `-` or `_`. */
const methodOverrides: ReadonlySet<string> = new Set([
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
  'x-method',
]);
const pathOverrides: ReadonlySet<string> = new Set([
  'x-original-url',
  'x-original-uri',
  'x-rewrite-url',
  'x-override-url',
]);
/** … and these words of a query. In the body of a form they are not looked for: docs/network.md says so. */
const methodWords: ReadonlySet<string> = new Set([
  ...methodOverrides,
  '-method',
  '-httpmethod',
  '$httpmethod',
]);
/** All of them together, in one request: each is asked of the policy with every reading of each other. */
const overridesMax = 4;

/** @param policy the connection's, or that with what has been approved for the request */
export function judge(
  head: RequestHead,
  connection: InterceptedConnection,
  policy: Policy = connection.policy,
): Judgement {
  const { destination, refusal, protocol } = connection;
  if (refusal !== undefined) return denied(refusal, head, connection);
  if (head.malformed !== undefined) return badRequest('malformed_request', head.malformed);
  if (head.method === 'CONNECT') {
    return badRequest('connect_refused', 'the request asks for a tunnel, and this is no proxy');
  }
  const agreement = agree(head, destination, protocol === 'tls' ? 'https' : 'http');
  if (!agreement.ok) return badRequest('host_mismatch', agreement.problem);
  const { target, authority } = agreement;
  // Where no rule is about requests, one answer holds for all of them.
  if (!policy.needsRequests(destination)) {
    const verdict = policy.decideRequest(destination, {
      method: head.method,
      path: target,
    });
    return verdict.isAllowed
      ? { kind: 'go', target, authority, rule: verdict.rule }
      : denied(verdict, head, connection);
  }
  const readings = readingsOf(target, head.headers);
  if (readings === undefined)
    return badRequest('ambiguous_path', 'the request’s path can be read in several ways');
  let rule = '';
  const { upgrade } = head;
  for (const method of methodsOf(head, target)) {
    for (const path of readings) {
      const verdict = policy.decideRequest(destination, { method, path, upgrade });
      if (!verdict.isAllowed) return denied(verdict, head, connection);
      rule ||= verdict.rule;
    }
  }
  return { kind: 'go', target, authority, rule };
}

/** The page for a verdict of the policy. */
export function denied(
  verdict: Verdict,
  head: RequestHead,
  { destination }: InterceptedConnection,
): Judgement & { kind: 'refuse' } {
  const place = `${destination.host ?? destination.address}:${destination.port}`;
  const address = verdict.address ?? destination.address ?? '';
  const leading = verdict.address === undefined ? '' : `, which leads to ${address}`;
  const path = (head.target.split('?', 1)[0] ?? '').slice(0, 256);
  return {
    kind: 'refuse',
    rule: verdict.rule,
    question: verdict.question,
    refusal: {
      status: 403,
      code: 'denied',
      message: `this sandbox’s network policy does not allow ${head.method} ${path} on ${place}${leading}`,
      rule: verdict.rule,
      advice:
        remedyOf(verdict.rule, address) ??
        'The operator can see the policy with "squash policy show" and change it with "squash policy set"; that of a box with "squash box why host" and "--net".',
    },
  };
}

function badRequest(code: string, message: string): Judgement & { kind: 'refuse' } {
  const status = code === 'malformed_request' ? 400 : 403;
  return { kind: 'refuse', rule: code, refusal: { status, code, message, rule: code } };
}

function methodsOf({ method, headers }: RequestHead, target: string): Set<string> {
  const others = [...overridesIn(headers, methodOverrides), ...methodsInQuery(target)]
    .map((text) => text.trim().toUpperCase())
    .filter((text) => text !== '');
  return new Set([method, ...others]);
}

function methodsInQuery(target: string): string[] {
  const at = target.indexOf('?');
  if (at < 0) return [];
  const words = new URLSearchParams(target.slice(at + 1));
  return Array.from(words).flatMap(([name, value]) => (methodWords.has(folded(name)) ? [value] : []));
}

/** CGI and its heirs make one of `X-Method` and `X_Method`. */
function folded(name: string): string {
  return name.toLowerCase().replaceAll('_', '-');
}

function overridesIn(headers: HeaderList, names: ReadonlySet<string>): string[] {
  return Array.from(fieldsOf(headers)).flatMap(([name, value]) => (names.has(folded(name)) ? [value] : []));
}

/** Undefined also where so much is overridden that nobody can mean it. */
function readingsOf(target: string, headers: HeaderList): readonly string[] | undefined {
  const paths = overridesIn(headers, pathOverrides);
  const methods = overridesIn(headers, methodOverrides).length + methodsInQuery(target).length;
  if (methods + paths.length > overridesMax) return undefined;
  const all = [target, ...paths].map(pathReadings);
  const known = all.filter((readings) => readings !== undefined);
  return known.length === all.length ? known.flat() : undefined;
}
