/**
 * What an attempt to get around a sandbox's network is, and how its outcome is read. The rows in `attempts/` are lists of
 * these. Each is tried in a sandbox whose policy allows a few names, where reaching anything else fails the test, and then
 * where nothing stands in its way, where reaching nothing does.
 *
 * What a newcomer would get wrong: the attacker's program is not asked whether it succeeded. The servers of the world
 * are: everything that an attempt sends beyond what is allowed holds the word `leak`, or goes to a forbidden address, or
 * holds a secret's value in a place that may not have it.
 */
import type { RequestSeen, Seen } from './world/events.ts';
import { allowedAddresses, places } from './world/places.ts';

export const attackClasses = [
  'address',
  'name',
  'tls',
  'http',
  'network',
  'dns',
  'secret',
  'reflection',
] as const;
export type AttackClass = (typeof attackClasses)[number];

/**
 * Where the attempt has to succeed:
 * - `open`: a sandbox of the same daemon that may reach everything, private ranges included, and has no secrets
 * - `wide`: the same with a secret that may be put into everything and sent to many hosts
 * - `neighbour`: the sandbox that the attempt is aimed at
 * - `machine`: the world's own network namespace, no sandbox at all
 * - `namespace`: root of a fresh network namespace
 */
export type ControlKind = 'open' | 'wide' | 'neighbour' | 'machine' | 'namespace';

export interface Attempt {
  /** Never reused: names the attempt in docs/network.md. */
  readonly id: string;
  readonly class: AttackClass;
  /**
   * A shell script. `$T` is the folder of tools, `$KEY` a secret's placeholder; in the control of a reflection it is
   * the value itself.
   */
  readonly script: string;
  readonly control:
    | ControlKind
    /** Why it can't succeed anywhere and is tried all the same. */
    | { readonly none: string };
  /** Instead of the common rule: what among the events shows that it went through. */
  readonly through?: (event: Seen) => boolean;
}

export interface Outcome {
  readonly isBreach: boolean;
  /** What shows it. */
  readonly why: string;
}

/** @param values of the secrets: where one shows inside, everything is lost */
export function outcomeOf(
  attempt: Attempt,
  seen: { readonly output: string; readonly events: readonly Seen[]; readonly values: readonly string[] },
): Outcome {
  const { output, events, values } = seen;
  const value = values.find(
    (one) => output.includes(one) || decodings(output).some((text) => text.includes(one)),
  );
  if (value !== undefined) return { isBreach: true, why: 'the value is inside' };
  if (/^breach: /m.test(output)) return { isBreach: true, why: output };
  const event = events.find(attempt.through ?? ((one) => isForbidden(one, values)));
  return event === undefined
    ? { isBreach: false, why: '' }
    : { isBreach: true, why: JSON.stringify(event).slice(0, 2_000) };
}

function isForbidden(event: Seen, values: readonly string[]): boolean {
  if (!allowedAddresses.has(event.address)) return true;
  switch (event.kind) {
    case 'connection':
      return event.address === places.resolver;
    case 'query':
      return event.address !== places.resolver || /leak|evil/i.test(event.name);
    case 'datagram':
      return true;
    case 'bytes':
      return /leak/.test(event.text);
    case 'request':
      return /leak/.test(JSON.stringify(event)) || holdsValueElsewhere(event, values);
  }
}

/** A value belongs into headers of requests to its host. */
export function holdsValueElsewhere(request: RequestSeen, values: readonly string[]): boolean {
  const { authority, url, body, trailers, headers } = request;
  const elsewhere = [authority, url, body, ...Object.values(trailers)].join('\n');
  const all = Object.values(headers).flat().join('\n');
  return values.some(
    (value) =>
      elsewhere.includes(value) ||
      unescaped(elsewhere).includes(value) ||
      elsewhere.includes(JSON.stringify(value).slice(1, -1)) ||
      (authority.split(':')[0] !== 'secret.allowed.test' && all.includes(value)),
  );
}

/** What an attacker would make of an answer that is not plain text. */
function decodings(output: string): string[] {
  const words = output.match(/[A-Za-z0-9+/_=-]{16,}/g) ?? [];
  return [
    ...words.map((word) => Buffer.from(word, 'base64').toString('latin1')),
    unescaped(output),
    output.replaceAll('\\"', '"'),
  ];
}

function unescaped(text: string): string {
  return text.replace(/%[0-9a-f]{2}/gi, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)));
}

type Options = Pick<Attempt, 'through'> & { readonly control?: Attempt['control'] };

/** Makes rows of one class whose control is `open` unless they say otherwise. */
export function attemptsOf(attackClass: AttackClass) {
  return (id: string, script: string, { control = 'open', ...rest }: Options = {}): Attempt => ({
    id,
    class: attackClass,
    script,
    control,
    ...rest,
  });
}
